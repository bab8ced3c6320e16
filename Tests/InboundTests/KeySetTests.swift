import Synchronization
import Testing
import Vocabulary

@testable import Inbound

/// Oracle: `KeySetMachine`'s rules, and the times at which something is asked.
@Suite("How keys are kept up to date")
struct KeySetTests {
    private static let url = EndpointURL(isTLS: true, host: "keys.example.com", port: 443, target: "/certs")
    private static let document = OutgoingAnswer(
        status: 200, body: Array(PubSubFixtures.document.utf8), cacheControl: "public, max-age=600")

    private static func keySet(
        _ servers: FakeServers, _ clock: StoodClock, at place: KeySetLocation? = nil,
        readFile: @escaping KeySet.ReadFile = { _, _ in .failure(OutgoingFailure("none")) }
    ) -> KeySet {
        KeySet(
            source: "play", place: place ?? .url(url, allowsPrivateAddresses: false), clock: clock.clock,
            send: servers.send, readFile: readFile, observe: servers.observe)
    }

    private static func word(_ keySet: KeySet, _ id: String = "run-1") -> String {
        KeySetMachineTests.word(keySet.lookUp(id))
    }

    @Test("They are fetched at the start, and again when the answer's age is over")
    func fetched() async {
        let (clock, servers) = (StoodClock(), FakeServers { _ in .success(Self.document) })
        let keySet = Self.keySet(servers, clock)
        #expect(Self.word(keySet) == "unverifiable")
        keySet.start()
        #expect(await comesToHold { Self.word(keySet) == "key" })
        #expect(servers.sent.count == 1 && servers.sent.first?.url == Self.url)
        #expect(await comesToHold { clock.alarms == [.seconds(600)] })
        clock.move(to: .seconds(600))
        #expect(await comesToHold { servers.sent.count == 2 })
        keySet.stop()
        #expect(await comesToHold { clock.alarms.isEmpty })
    }

    @Test("A key that is not known is asked for at most once a minute")
    func unknown() async {
        let (clock, servers) = (StoodClock(), FakeServers { _ in .success(Self.document) })
        let keySet = Self.keySet(servers, clock)
        keySet.start()
        #expect(await comesToHold { Self.word(keySet) == "key" })
        #expect(Self.word(keySet, "new") == "unknown")
        clock.move(to: .seconds(60))
        #expect(Self.word(keySet, "new") == "possibly new")
        #expect(await comesToHold { servers.sent.count == 2 && Self.word(keySet, "new") == "unknown" })
        keySet.stop()
    }

    @Test("A failure is reported once and tried again; the keys that are known stay")
    func failing() async {
        let (clock, servers) = (StoodClock(), FakeServers { _ in .success(OutgoingAnswer(status: 500, body: [])) })
        let keySet = Self.keySet(servers, clock)
        keySet.start()
        #expect(await comesToHold { clock.alarms == [.seconds(1)] })
        clock.move(to: .seconds(1))
        #expect(await comesToHold { clock.alarms == [.seconds(3)] })
        #expect(Self.word(keySet) == "unverifiable")
        servers.answer { _ in .success(Self.document) }
        clock.move(to: .seconds(3))
        #expect(await comesToHold { Self.word(keySet) == "key" })
        #expect(await comesToHold { servers.observed.count == 2 })
        let lost = "play lost keys: https://keys.example.com/…: answered 500"
        #expect(servers.observed == [lost, "play has keys"])
        servers.answer { _ in .success(OutgoingAnswer(status: 200, body: nil)) }
        #expect(await comesToHold { clock.alarms == [.seconds(603)] })
        clock.move(to: .seconds(603))
        #expect(await comesToHold { servers.observed.count == 3 })
        #expect(Self.word(keySet) == "key")
        keySet.stop()
    }

    @Test("A file is read at once and again when it has changed; one that cannot be read takes no key away")
    func file() async {
        let (clock, servers) = (StoodClock(), FakeServers { _ in .failure(OutgoingFailure("nothing is fetched")) })
        let content = Mutex<Result<[UInt8], OutgoingFailure>>(.success(Array(PubSubFixtures.document.utf8)))
        let keySet = Self.keySet(servers, clock, at: .file(path: "/keys.json")) { path, bytesMax in
            #expect(path == "/keys.json" && bytesMax == 64 << 10)
            return content.withLock { $0 }
        }
        keySet.start()
        #expect(Self.word(keySet) == "key" && Self.word(keySet, "other") == "unknown")
        let renamed = PubSubFixtures.document.replacing("\"run-1\"", with: "\"other\"")
        content.withLock { $0 = .success(Array(renamed.utf8)) }
        #expect(await comesToHold { clock.alarms == [.seconds(5)] })
        clock.move(to: .seconds(5))
        #expect(await comesToHold { Self.word(keySet, "other") == "key" && Self.word(keySet) == "unknown" })
        content.withLock { $0 = .failure(OutgoingFailure("no such file")) }
        #expect(await comesToHold { clock.alarms == [.seconds(10)] })
        clock.move(to: .seconds(10))
        #expect(await comesToHold { servers.observed == ["play lost keys: /keys.json: no such file"] })
        #expect(Self.word(keySet, "other") == "key" && servers.sent.isEmpty)
        keySet.stop()
    }

    @Test("While no file can be read, nothing can be decided")
    func noFile() {
        let (clock, servers) = (StoodClock(), FakeServers { _ in .failure(OutgoingFailure("")) })
        let keySet = Self.keySet(servers, clock, at: .file(path: "/keys.json")) { _, _ in .success([]) }
        keySet.start()
        #expect(Self.word(keySet) == "unverifiable")
        #expect(servers.observed.first?.hasPrefix("play lost keys: /keys.json: the key set cannot be read") == true)
        keySet.stop()
    }
}
