import Foundation
import Testing
import Vocabulary

/// Name servers that say nothing. Needs root: the daemon gets an /etc/resolv.conf of its own, which names a socket of
/// this test.
@Suite(.serialized, .timeLimit(.minutes(30)), .enabled(if: geteuid() == 0, "only root can mount a resolv.conf"))
struct NameServerTests {
    @Test("Twelve receivers whose names hang: the one whose name is known has its message")
    func hangingNames() throws {
        let receiver = try Receiver()
        let silent = try SilentNameServer()
        let holes = (0..<12).map {
            Relay.Integration(
                "hole-\($0)", url: "http://hole-\($0).example.com/hook", secrets: receiver.secrets,
                ["events": #"["ACTIVATE"]"#])
        }
        let url = receiver.url.replacing("127.0.0.1", with: "localhost")
        let relay = try Relay(
            holes + [.init("backend", url: url, secrets: receiver.secrets, ["events": #"["RENEW"]"#])])
        defer { relay.end() }
        let file = try relay.directory.write(
            "resolv.conf", "nameserver \(SilentNameServer.address)\noptions timeout:30 attempts:2\n")
        try relay.launch(by: [
            "unshare", "-m", "bash", "-c", "mount --bind '\(file)' /etc/resolv.conf && exec \"$@\"", "posthouse",
        ])
        #expect(relay.waitForLine("ready on ") != nil, "\(relay.lines)")
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        // As many names hang as threads would have been, were they shared.
        #expect(silent.waitForNames(8))
        #expect(try relay.source().post(Webhook("RENEW", .user("u"), purchase: "subs_2")) == 200)
        #expect(receiver.waitForAccepted(1))
        #expect(relay.stop() == .exited(0))
    }
}

/// Takes questions by UDP and never answers.
private final class SilentNameServer: Sendable {
    static let address = "127.0.0.77"
    private let descriptor: Int32

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(53).bigEndian
        inet_pton(AF_INET, Self.address, &address.sin_addr)
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard descriptor >= 0, code == 0 else { throw HarnessFailure(call: "bind to port 53") }
        Socket(descriptor: descriptor).prepare(timeout: 180)
    }

    deinit { close(descriptor) }

    /// Whether so many different names are asked for.
    func waitForNames(_ count: Int) -> Bool {
        var names: Set<[UInt8]> = []
        var buffer = [UInt8](repeating: 0, count: 1_024)
        while names.count < count {
            let length = recv(descriptor, &buffer, buffer.count, 0)
            // The header has 12 bytes; the first label follows, its length before it (RFC 1035, 4.1).
            guard length > 13 else { return false }
            names.insert(Array(buffer[12..<min(length, 13 + Int(buffer[12]))]))
        }
        return true
    }
}
