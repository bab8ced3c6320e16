import ArgumentParser
import Configuration
import Glibc
import Observing

/// `--config FILE`, as every command takes it.
struct ConfigurationOption: ParsableArguments {
    @Option(name: .customLong("config"), help: "The configuration file.")
    var path = "/etc/posthouse/posthouse.toml"

    /// The checked configuration; prints what is wrong and ends the program if it cannot be used.
    func load(_ purpose: Purpose) throws -> Configuration {
        let outcome = ConfigurationFile.load(path: path, purpose: purpose)
        if let configuration = outcome.configuration, outcome.errors.isEmpty { return configuration }
        Terminal.complain(outcome.render(coloured: Terminal.errorIsColoured))
        throw Exit.configuration
    }
}

/// Where commands write to.
enum Terminal {
    /// NO_COLOR: no-color.org; an empty value counts as none.
    static let allowsColour = getenv("NO_COLOR").map { $0.pointee == 0 } ?? true
    static let errorIsColoured = isatty(STDERR_FILENO) == 1 && allowsColour

    static func say(_ text: String) { put(text.hasSuffix("\n") ? text : text + "\n", STDOUT_FILENO) }

    /// Bytes as they are, no end of line added; a terminal gets them in lines, without what would move its cursor.
    static func say(_ bytes: [UInt8]) {
        guard isOutput else { return put(bytes, STDOUT_FILENO) }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        say(lines.map { PlainText.harmless(String($0)) }.joined(separator: "\n"))
    }

    static func complain(_ text: String) { put(text.hasSuffix("\n") ? text : text + "\n", STDERR_FILENO) }

    /// Runs a command's body; a complaint is printed after the command's name and becomes its exit code.
    static func reporting(_ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch let complaint as Complaint {
            complain("posthouse: \(complaint)")
            throw complaint.code
        } catch let code as ExitCode {
            throw code
        } catch {
            complain("posthouse: \(error)")
            throw ExitCode.failure
        }
    }

    private static func put(_ text: String, _ descriptor: Int32) { put(Array(text.utf8), descriptor) }

    private static func put(_ bytes: [UInt8], _ descriptor: Int32) {
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { return }
            written += count
        }
    }
}
