import Foundation
import Testing

/// The commands of the binary, as a program and as a person run them.
extension Relay {
    /// Runs another command of the binary to its end.
    func command(
        _ arguments: String..., within seconds: Double = 120
    ) throws -> (end: ChildProcess.End?, output: String, errors: String) {
        let child = try ChildProcess([try Self.binary.get()] + arguments, environment: Self.environment)
        let end = child.waitForEnd(seconds)
        if end == nil { child.signal(SIGKILL) }
        return (end, child.output.joined(separator: "\n"), child.errors.joined(separator: "\n"))
    }

    /// The one JSON document that a command of this relay's configuration prints with `--json`.
    func json(_ arguments: String..., ended: Int32 = 0) throws -> [String: Any] {
        let child = try ChildProcess([try Self.binary.get()] + arguments + ["--json", "--config", configuration])
        #expect(child.waitForEnd(120) == .exited(ended), "\(arguments): \(child.errors)")
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
