import Foundation
import Testing

/// The commands of the binary, as a program and as a person run them.
extension Relay {
    /// Runs another command of the binary to its end.
    func command(
        _ arguments: String..., within seconds: Double = 120
    ) throws -> (end: ChildProcess.End?, output: String, errors: String) {
        let (child, end) = try Self.run(arguments, within: seconds)
        return (end, child.output.joined(separator: "\n"), child.errors.joined(separator: "\n"))
    }

    /// Runs it again where the database gave it no connection in its five seconds: the machine may be busy, and nothing
    /// was done.
    private static func run(
        _ arguments: [String], within seconds: Double
    ) throws -> (child: ChildProcess, end: ChildProcess.End?) {
        var runs = 0
        while true {
            let child = try ChildProcess([try binary.get()] + arguments, environment: environment)
            let end = child.waitForEnd(seconds)
            if end == nil { child.signal(SIGKILL) }
            runs += 1
            let isLate = child.errors.contains { $0.contains("did not answer within 5.0 seconds") }
            guard end == .exited(69), isLate, runs < 4 else { return (child, end) }
        }
    }

    /// The one JSON document that a command of this relay's configuration prints with `--json`.
    func json(_ arguments: String..., ended: Int32 = 0) throws -> [String: Any] {
        let (child, end) = try Self.run(arguments + ["--json", "--config", configuration], within: 120)
        #expect(end == .exited(ended), "\(arguments): \(child.errors)")
        let text = child.output.joined(separator: "\n")
        return try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    /// What a terminal of so many columns is sent by a command: both streams, in lines, as util-linux' script(1) gets
    /// them on a pseudo-terminal of its own. Who runs the tests may have set NO_COLOR.
    func onTerminal(columns: Int, _ arguments: String..., environment: [String: String] = [:]) throws -> [String] {
        let words = [try Self.binary.get()] + arguments + ["--config", configuration]
        let quoted = words.map { "'\($0)'" }.joined(separator: " ")
        let child = try ChildProcess(
            ["script", "-qec", "stty cols \(columns) rows 24 && exec \(quoted)", "/dev/null"],
            environment: ["TERM": "xterm", "COLUMNS": "", "NO_COLOR": ""].merging(environment) { $1 })
        #expect(child.waitForEnd(120) == .exited(0), "\(arguments): \(child.output)")
        return child.output.map { $0.hasSuffix("\r") ? String($0.dropLast()) : $0 }
    }
}
