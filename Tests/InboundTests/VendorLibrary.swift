import Foundation
import Testing
import Vocabulary

/// A Python with the libraries that vendors give to their customers (PyPI), for what those say of the same bytes.
/// deploy/test installs them; without one the tests are shown as skipped.
enum VendorLibrary {
    static let python = ProcessInfo.processInfo.environment["POSTHOUSE_TEST_PYTHON"]

    /// Whether it has this module.
    static func has(_ module: String) -> Bool {
        (try? run("import \(module)\nprint(1)", [String]())) == ["1"]
    }

    struct Failure: Error { let status: Int32 }

    /// Runs a script that reads one JSON value from each line of the file that its argument names.
    /// - Returns: the lines that it printed.
    static func run(_ script: String, _ cases: [some Encodable]) throws -> [String] {
        let input = FileManager.default.temporaryDirectory.appendingPathComponent("cases-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: input) }
        let encoder = JSONEncoder()
        var lines = Data()
        for one in cases { lines += try encoder.encode(one) + Data("\n".utf8) }
        try lines.write(to: input)
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: python ?? "/nowhere/python")
        process.arguments = ["-c", script, input.path]
        process.standardOutput = output
        try process.run()
        let said = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(status: process.terminationStatus) }
        return String(decoding: said, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: true)
            .map(String.init)
    }
}
