import Foundation
import TestSupport

/// A program that runs, its output kept line by line.
final class ChildProcess: Sendable {
    private struct State: Sendable {
        var output: [String] = []
        var errors: [String] = []
        var openStreams = 2
        /// As waitpid(2) gives it; nil: it still runs.
        var status: Int32?
    }

    enum End: Equatable, Sendable {
        case exited(Int32)
        case signalled(Int32)
    }

    let identifier: pid_t
    private let state = Monitor(State())

    /// - Parameter environment: beside this process's own.
    init(_ command: [String], environment: [String: String] = [:]) throws {
        var outputEnds: [Int32] = [-1, -1]
        var errorEnds: [Int32] = [-1, -1]
        guard Self.streamPair(&outputEnds), Self.streamPair(&errorEnds) else {
            throw HarnessFailure(call: "socketpair")
        }
        defer {
            close(outputEnds[1])
            close(errorEnds[1])
        }
        identifier = try Self.spawn(
            command, environment: environment, input: nil, output: outputEnds[1], errors: errorEnds[1])
        let (process, state) = (identifier, state)
        Self.gather(outputEnds[0], into: state, \.output)
        Self.gather(errorEnds[0], into: state, \.errors)
        Thread.detachNewThread {
            var status: Int32 = 0
            while waitpid(process, &status, 0) < 0, errno == EINTR {}
            let ended = status
            state.change { $0.status = ended }
        }
    }

    var isRunning: Bool { state.read { $0.status == nil } }
    var output: [String] { state.read(\.output) }
    var errors: [String] { state.read(\.errors) }

    /// A process that has been waited for is no target any more: its number may be another's.
    func signal(_ number: Int32) {
        state.read { if $0.status == nil { _ = Foundation.kill(identifier, number) } }
    }

    /// Waits until the process has taken a signal that was sent to it, or has ended: a busy machine may not let it run
    /// for seconds.
    func waitUntilTaken(_ number: Int32) -> Bool {
        eventually {
            guard isRunning, let status = try? String(contentsOfFile: "/proc/\(identifier)/status", encoding: .utf8),
                let line = status.split(separator: "\n").first(where: { $0.hasPrefix("ShdPnd:") }),
                let pending = line.split(whereSeparator: \.isWhitespace).last.flatMap({ UInt64($0, radix: 16) })
            else { return !isRunning }
            return pending & (1 << UInt64(number - 1)) == 0
        }
    }

    /// Nil: it still runs after `seconds`. Waits for the end of its output, too.
    func waitForEnd(_ seconds: Double) -> End? {
        guard state.wait(seconds, until: { $0.status != nil }) else { return nil }
        // A grandchild may hold the streams open. Many short waits and not a long one: where this process is stopped
        // for seconds, that one would be over before the threads that read go on.
        var looks = 0
        while looks < 100, !state.wait(min(seconds, 0.1), until: { $0.openStreams == 0 }) { looks += 1 }
        return state.read(\.status).map { status in
            status & 0x7f == 0 ? .exited(status >> 8 & 0xff) : .signalled(status & 0x7f)
        }
    }

    /// Waits for a line on standard error, from line number `start` on, that `matches`; nil: none within `seconds`.
    func waitForError(_ seconds: Double, from start: Int = 0, _ matches: (String) -> Bool) -> String? {
        var seen = start
        var found: String?
        _ = state.wait(seconds) { state in
            while found == nil, seen < state.errors.count {
                if matches(state.errors[seen]) { found = state.errors[seen] }
                seen += 1
            }
            return found != nil || (state.status != nil && state.openStreams == 0)
        }
        return found
    }

    /// The same for standard output.
    func waitForOutput(_ seconds: Double, _ matches: (String) -> Bool) -> String? {
        _ = state.wait(seconds) { $0.output.contains(where: matches) || ($0.status != nil && $0.openStreams == 0) }
        return state.read { $0.output.first(where: matches) }
    }

    /// Two ends that no child inherits by chance: unlike pipe(2), socketpair(2) marks them as it makes them.
    static func streamPair(_ ends: inout [Int32]) -> Bool {
        socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0
    }

    private static func gather(
        _ descriptor: Int32, into state: Monitor<State>, _ lines: any WritableKeyPath<State, [String]> & Sendable
    ) {
        Thread.detachNewThread {
            var rest: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 16 << 10)
            while true {
                let count = Foundation.read(descriptor, &buffer, buffer.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                rest += buffer[..<count]
                let parts = rest.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
                rest = Array(parts.last ?? [])
                let whole = parts.dropLast().map { String(decoding: $0, as: UTF8.self) }
                if !whole.isEmpty { state.change { $0[keyPath: lines] += whole } }
            }
            close(descriptor)
            let last = String(decoding: rest, as: UTF8.self)
            state.change { state in
                if !last.isEmpty { state[keyPath: lines].append(last) }
                state.openStreams -= 1
            }
        }
    }

    /// Starts a program in a process group of its own. Not by Foundation's Process: that waits until every descendant
    /// has ended. Streams that are nil are /dev/null.
    static func spawn(
        _ command: [String], environment: [String: String]?, input: Int32?, output: Int32?, errors: Int32?
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (descriptor, target) in [(input, STDIN_FILENO), (output, STDOUT_FILENO), (errors, STDERR_FILENO)] {
            if let descriptor {
                posix_spawn_file_actions_adddup2(&actions, descriptor, target)
            } else {
                posix_spawn_file_actions_addopen(&actions, target, "/dev/null", O_RDWR, 0)
            }
        }
        let own = ProcessInfo.processInfo.environment.merging(environment ?? [:]) { $1 }
        let arguments = command.map { strdup($0) } + [nil]
        let variables = own.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { (arguments + variables).forEach { free($0) } }
        var child = pid_t()
        let code = withPlainSignals(Int32(POSIX_SPAWN_SETPGROUP)) { attributes in
            posix_spawnp(&child, command[0], &actions, &attributes, arguments, variables)
        }
        guard code == 0 else { throw HarnessFailure("\(command[0]): \(String(cString: strerror(code)))") }
        return child
    }
}
