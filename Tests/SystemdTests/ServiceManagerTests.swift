import Foundation
import Glibc
import Testing

@testable import Systemd

/// What the service manager hands down in the environment, and what it is notified of. One suite in series: the
/// environment belongs to the whole process.
@Suite(.serialized) struct ServiceManagerTests {
    @Test func withoutASocketNothingIsSent() {
        unsetenv("NOTIFY_SOCKET")
        #expect(Notify.ready(status: "serving") == .notSupervised)
        #expect(Notify.watchdog() == .notSupervised)
    }

    /// Oracle: the bytes that sd_notify(3) documents, as they arrive at a real socket.
    @Test func everyMessageArrivesAsDocumented() throws {
        let manager = try ManagerSocket()
        #expect(Notify.ready(status: "serving 3 sources") == .sent)
        #expect(manager.receive() == "READY=1\nSTATUS=serving 3 sources")
        #expect(Notify.status("12 waiting") == .sent)
        #expect(manager.receive() == "STATUS=12 waiting")
        #expect(Notify.stopping(status: "draining") == .sent)
        #expect(manager.receive() == "STOPPING=1\nSTATUS=draining")
        #expect(Notify.watchdog() == .sent)
        #expect(manager.receive() == "WATCHDOG=1")
        #expect(Notify.extendTimeout(by: .milliseconds(60_500)) == .sent)
        #expect(manager.receive() == "EXTEND_TIMEOUT_USEC=60500000")
    }

    @Test func reloadingNamesTheMonotonicClock() throws {
        let manager = try ManagerSocket()
        let before = DispatchTime.now().uptimeNanoseconds / 1_000
        _ = Notify.reloading()
        let after = DispatchTime.now().uptimeNanoseconds / 1_000
        let parts = manager.receive().split(separator: "\n")
        #expect(parts.first == "RELOADING=1")
        let stated = try #require(parts.last.flatMap { UInt64($0.dropFirst("MONOTONIC_USEC=".count)) })
        #expect((before...after).contains(stated))
    }

    @Test func aStatusCannotSmuggleAnAssignmentIn() throws {
        let manager = try ManagerSocket()
        _ = Notify.status("trouble\nMAINPID=1\r\n")
        #expect(manager.receive() == "STATUS=trouble MAINPID=1  ")
    }

    @Test func aSocketThatIsGoneIsAFailure() throws {
        setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1)
        defer { unsetenv("NOTIFY_SOCKET") }
        #expect(Notify.watchdog() == .failed(ENOENT))
    }

    @Test func theWatchdogIntervalIsTheUnits() {
        setenv("WATCHDOG_USEC", "30000000", 1)
        setenv("WATCHDOG_PID", String(getpid()), 1)
        #expect(Watchdog.interval() == .seconds(30))
        setenv("WATCHDOG_PID", String(getpid() + 1), 1)
        #expect(Watchdog.interval() == nil)
        unsetenv("WATCHDOG_USEC")
        unsetenv("WATCHDOG_PID")
        #expect(Watchdog.interval() == nil)
    }

    /// Descriptor 3 is whatever this process has there: only its number, its name and its flag are looked at.
    @Test func inheritedSocketsHaveNumberNameAndCloseOnExec() throws {
        if fcntl(3, F_GETFD) < 0 {
            // The lowest that is free; another one where another test has taken it meanwhile.
            let null = open("/dev/null", O_RDONLY)
            if null != 3 { close(null) }
        }
        setenv("LISTEN_FDS", "1", 1)
        setenv("LISTEN_FDNAMES", "ingest", 1)
        setenv("LISTEN_PID", String(getpid()), 1)
        #expect(try ListenFds.take() == [InheritedSocket(descriptor: 3, name: "ingest")])
        #expect(fcntl(3, F_GETFD) & FD_CLOEXEC != 0)
        #expect(getenv("LISTEN_FDS") == nil && getenv("LISTEN_PID") == nil && getenv("LISTEN_FDNAMES") == nil)
        #expect(try ListenFds.take().isEmpty)
    }

    @Test func socketsOfAnotherProcessAreNotOurs() throws {
        setenv("LISTEN_FDS", "1", 1)
        setenv("LISTEN_PID", "1", 1)
        #expect(try ListenFds.take().isEmpty)
    }

    @Test func unreadableSocketVariablesAreAnErrorThatNamesThem() {
        setenv("LISTEN_FDS", "many", 1)
        setenv("LISTEN_PID", String(getpid()), 1)
        let failure = #expect(throws: ListenFds.Failure.self) { try ListenFds.take() }
        #expect(failure?.description.contains("LISTEN_FDS") == true)
    }

    @Test func theJournalIsKnownByDeviceAndInode() throws {
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        defer { ends.forEach { close($0) } }
        var status = stat()
        fstat(ends[1], &status)
        let value = "\(status.st_dev):\(status.st_ino)"
        #expect(JournalStream.isJournal(descriptor: ends[1], journalStream: value))
        setenv("JOURNAL_STREAM", value, 1)
        #expect(JournalStream.isJournal(descriptor: ends[1]))
        unsetenv("JOURNAL_STREAM")
        #expect(!JournalStream.isJournal(descriptor: ends[1]))
    }

    @Test(arguments: ["", ":", "8", "8:", ":9", "8:9:10", "a:b", "8:1"])
    func anotherStreamIsNotTheJournal(value: String) throws {
        let null = open("/dev/null", O_WRONLY)
        defer { close(null) }
        #expect(!JournalStream.isJournal(descriptor: null, journalStream: value))
    }
}

/// A datagram socket that stands for the service manager while it lives.
private final class ManagerSocket {
    private let descriptor: Int32
    private let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let path = directory.appending(path: "notify").path
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        try withUnsafeMutableBytes(of: &address.sun_path) { room in
            try #require(path.utf8.count < room.count)
            room.copyBytes(from: path.utf8)
        }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
        setenv("NOTIFY_SOCKET", path, 1)
    }

    deinit {
        unsetenv("NOTIFY_SOCKET")
        close(descriptor)
        try? FileManager.default.removeItem(at: directory)
    }

    /// A datagram is there as soon as the send returned.
    func receive() -> String {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }
}
