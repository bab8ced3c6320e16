import Foundation
import Testing

/// The commands of the binary, as a program and as a person run them.
extension Relay {
    typealias Run = (child: ChildProcess, end: ChildProcess.End?)

    /// Runs another command of the binary to its end.
    func command(
        _ arguments: String..., within seconds: Double = 120
    ) throws -> (end: ChildProcess.End?, output: String, errors: String) {
        let (child, end) = try Self.run(arguments, within: seconds)
        return (end, child.output.joined(separator: "\n"), child.errors.joined(separator: "\n"))
    }

    /// Runs a command of the binary to its end, and kills it after so many seconds.
    /// - Parameter shell: what is given the command's words, and runs them.
    static func run(
        _ arguments: [String], by shell: [String] = [], within seconds: Double = 180,
        environment: [String: String] = [:]
    ) throws -> Run {
        try runProgram(
            shell + [try binary.get()] + arguments, within: seconds,
            environment: Self.environment.merging(environment) { $1 })
    }

    /// Runs it again where the database gave the command no connection in its five seconds: the machine may be busy,
    /// and nothing was done.
    private static func runProgram(
        _ program: [String], within seconds: Double, environment: [String: String]
    ) throws -> Run {
        var runs = 0
        while true {
            let child = try ChildProcess(program, environment: environment)
            let end = child.waitForEnd(seconds)
            if end == nil { child.signal(SIGKILL) }
            runs += 1
            let isLate = (child.errors + child.output).contains { $0.contains("did not answer within 5.0 seconds") }
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
        let (child, end) = try Self.runProgram(
            ["script", "-qec", "stty cols \(columns) rows 24 && exec \(quoted)", "/dev/null"], within: 120,
            environment: ["TERM": "xterm", "COLUMNS": "", "NO_COLOR": ""].merging(environment) { $1 })
        #expect(end == .exited(0), "\(arguments): \(child.output)")
        return child.output.map { $0.hasSuffix("\r") ? String($0.dropLast()) : $0 }
    }
}
