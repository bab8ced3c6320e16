import Foundation
import Glibc
import Testing

@testable import Systemd

/// Oracle: the files, and a child process.
@Suite("The lock of the state directory")
struct StateLockTests {
    private static func directory() throws -> String {
        var template = Array("/tmp/posthouse-state-XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap { mkdtemp($0) } }
        return String(cString: try #require(made))
    }

    /// Takes a lock that was ended. A process that a test of another suite starts has a copy of every descriptor
    /// between its fork and its exec, so the lock may last a moment longer; one that inherits it for good keeps it.
    private static func takeEnded(in directory: String) async throws -> StateLock {
        for _ in 0..<30_000 {
            if let lock = StateLock.take(in: directory) { return lock }
            try await Task.sleep(for: .milliseconds(10))
        }
        return try #require(nil as StateLock?, "the lock was ended, and is still held after five minutes")
    }

    @Test("A predecessor is known by its mark once it is dead; who is second has no lock and knows nobody")
    func succession() async throws {
        let directory = try Self.directory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let first = try #require(StateLock.take(in: directory), "this test needs /etc/machine-id")
        #expect(first.former == nil && first.own.token.count == 32 && first.own.machine.count == 16)
        #expect(StateLock.take(in: directory) == nil, "before its mark is there")
        #expect(first.leaveMark())
        #expect(StateLock.take(in: directory) == nil, "it lives")
        first.end()
        let second = try await Self.takeEnded(in: directory)
        #expect(second.former == first.own && second.own != first.own)
        // It ends before it has left a mark: the first one's stays.
        second.end()
        let third = try await Self.takeEnded(in: directory)
        #expect(third.former == first.own)
        #expect(third.leaveMark())
        third.end()
        let fourth = try await Self.takeEnded(in: directory)
        #expect(fourth.former == third.own)
        fourth.end()
    }

    @Test("A copy of the directory has another mark, and a torn or foreign file none")
    func copies() async throws {
        let directory = try Self.directory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let first = try #require(StateLock.take(in: directory))
        #expect(first.leaveMark())
        let copy = directory + "/copy"
        try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: false)
        try FileManager.default.copyItem(atPath: directory + "/daemon.lock", toPath: copy + "/daemon.lock")
        let copied = try #require(StateLock.take(in: copy))
        #expect(copied.former?.token == first.own.token && copied.former != first.own)
        copied.end()
        for text in ["", "0123", String(repeating: "x", count: 32)] {
            try Data(text.utf8).write(to: URL(fileURLWithPath: copy + "/daemon.lock"))
            let lock = try await Self.takeEnded(in: copy)
            #expect(lock.former == nil, "\(text)")
            lock.end()
        }
        first.end()
    }

    @Test("Links and missing directories are no lock")
    func refused() throws {
        let directory = try Self.directory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        #expect(StateLock.take(in: directory + "/missing") == nil)
        try Data("kept".utf8).write(to: URL(fileURLWithPath: directory + "/other"))
        #expect(symlink(directory + "/other", directory + "/daemon.lock") == 0)
        #expect(StateLock.take(in: directory) == nil)
        #expect(unlink(directory + "/daemon.lock") == 0)
        #expect(link(directory + "/other", directory + "/daemon.lock") == 0)
        #expect(StateLock.take(in: directory) == nil)
        #expect(try String(contentsOfFile: directory + "/other", encoding: .utf8) == "kept")
    }

    @Test("A child process does not inherit the lock, and outlives it")
    func children() async throws {
        let directory = try Self.directory()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let lock = try #require(StateLock.take(in: directory))
        // Foundation's Process would close what it inherits; this closes nothing but what is closed on exec.
        var child = pid_t()
        var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("sleep"), strdup("3600"), nil]
        defer { arguments.forEach { free($0) } }
        #expect(posix_spawn(&child, "/bin/sleep", nil, nil, &arguments, nil) == 0)
        defer {
            kill(child, SIGKILL)
            waitpid(child, nil, 0)
        }
        lock.end()
        let next = try await Self.takeEnded(in: directory)
        #expect(kill(child, 0) == 0)
        next.end()
    }
}
