import Testing

@testable import Inbound

/// Every transition of the key set's states. Oracle: the rules in words, with times written out by hand; RFC 9111 for
/// Cache-Control.
@Suite("When the key set is fetched")
struct KeySetMachineTests {
    typealias Action = KeySetMachine.Action

    static let keys = PubSubFixtures.keys

    /// A machine whose set was fetched at `at` for `age` seconds.
    static func fetched(at: Duration = .zero, age: Int64? = 3_600) -> KeySetMachine {
        var machine = KeySetMachine(now: at)
        _ = machine.due(now: at)
        _ = machine.fetched(keys, maxAge: age.map { Duration.seconds($0) }, now: at)
        return machine
    }

    static func word(_ answer: JSONWebKeyAnswer) -> String {
        switch answer {
        case .key: "key"
        case .unknown: "unknown"
        case .possiblyNew: "possibly new"
        case .unverifiable: "unverifiable"
        }
    }

    /// What a look-up answers and does.
    static func look(_ machine: inout KeySetMachine, _ id: String, _ now: Int64) -> (answer: String, action: Action) {
        let found = machine.look(up: id, now: .seconds(now))
        return (word(found.answer), found.action)
    }

    // MARK: The first fetch

    @Test("The first fetch is due at once, and only one is under way")
    func first() {
        var machine = KeySetMachine(now: .seconds(10))
        #expect(!machine.hasKeys)
        let begun = machine.due(now: .seconds(10))
        #expect(begun == .fetch)
        let again = machine.due(now: .seconds(11))
        #expect(again == .nothing)
        let looked = Self.look(&machine, "run-1", 11)
        #expect(looked.answer == "unverifiable" && looked.action == .nothing)
        let done = machine.fetched(Self.keys, maxAge: .seconds(600), now: .seconds(12))
        #expect(done == .wait(until: .seconds(612)))
        #expect(machine.hasKeys)
        let known = Self.look(&machine, "run-1", 13)
        #expect(known.answer == "key" && known.action == .nothing)
    }

    @Test("A token begins the first fetch if nothing else did, and is unverifiable until then")
    func firstByToken() {
        var machine = KeySetMachine(now: .zero)
        let looked = Self.look(&machine, "run-1", 0)
        #expect(looked.answer == "unverifiable" && looked.action == .fetch)
        let again = Self.look(&machine, "run-1", 0)
        #expect(again.answer == "unverifiable" && again.action == .nothing)
    }

    // MARK: The age

    @Test(
        "A set is used for the age that the answer states, within bounds",
        arguments: [
            (nil, 3_600), (0, 300), (299, 300), (300, 300), (20_000, 20_000), (86_400, 86_400), (86_401, 86_400),
            (9_999_999_999, 86_400), (-5, 300),
        ] as [(Int64?, Int64)])
    func age(_ stated: Int64?, _ used: Int64) {
        var machine = KeySetMachine(now: .zero)
        _ = machine.due(now: .zero)
        let done = machine.fetched(Self.keys, maxAge: stated.map { Duration.seconds($0) }, now: .seconds(100))
        #expect(done == .wait(until: .seconds(100 + used)))
        let early = machine.due(now: Duration.seconds(100 + used) - .milliseconds(1))
        #expect(early == .wait(until: .seconds(100 + used)))
        let due = machine.due(now: .seconds(100 + used))
        #expect(due == .fetch)
    }

    @Test("A set that is too old is fetched again by the next token, and used until then")
    func tooOld() {
        var machine = Self.fetched(age: 600)
        let known = Self.look(&machine, "run-1", 600)
        #expect(known.answer == "key" && known.action == .fetch)
        let again = Self.look(&machine, "run-1", 601)
        #expect(again.answer == "key" && again.action == .nothing)
        let unknown = Self.look(&machine, "other", 601)
        #expect(unknown.answer == "possibly new" && unknown.action == .nothing)
    }

    // MARK: Unknown keys

    @Test("An unknown key asks for a fetch at most once a minute")
    func unknownKey() {
        var machine = Self.fetched()
        for second in [0, 1, 59] as [Int64] {
            let early = Self.look(&machine, "other", second)
            #expect(early.answer == "unknown" && early.action == .nothing, "the set is as new as can be")
        }
        let asks = Self.look(&machine, "other", 60)
        #expect(asks.answer == "possibly new" && asks.action == .fetch)
        let waits = Self.look(&machine, "another", 61)
        #expect(waits.answer == "possibly new" && waits.action == .nothing)
        let done = machine.fetched(Self.keys, maxAge: .seconds(3_600), now: .seconds(62))
        #expect(done == .wait(until: .seconds(3_662)))
        let still = Self.look(&machine, "other", 62)
        #expect(still.answer == "unknown" && still.action == .nothing)
        let minute = Self.look(&machine, "other", 119)
        #expect(minute.action == .nothing)
        let next = Self.look(&machine, "other", 120)
        #expect(next.answer == "possibly new" && next.action == .fetch)
    }

    @Test("A new key is known after the fetch that its first token asked for")
    func newKey() throws {
        let vector = PubSubFixtures.entry("vector-1", PubSubFixtures.vectorModulus)
        let old = try JSONWebKeys(Array("{\"keys\":[\(vector)]}".utf8))
        var machine = KeySetMachine(now: .zero)
        _ = machine.due(now: .zero)
        _ = machine.fetched(old, maxAge: nil, now: .zero)
        let asks = Self.look(&machine, "run-1", 100)
        #expect(asks.answer == "possibly new" && asks.action == .fetch)
        _ = machine.fetched(Self.keys, maxAge: nil, now: .seconds(101))
        let known = Self.look(&machine, "run-1", 101)
        #expect(known.answer == "key")
        _ = machine.due(now: .seconds(10_000))
        _ = machine.fetched(old, maxAge: nil, now: .seconds(10_000))
        let withdrawn = Self.look(&machine, "run-1", 10_001)
        #expect(withdrawn.answer == "unknown", "a key that Google no longer lists is none")
    }

    @Test("An unknown key does not put off the next fetch by age")
    func notPutOff() {
        var machine = Self.fetched(age: 600)
        _ = Self.look(&machine, "other", 30)
        let wait = machine.due(now: .seconds(40))
        #expect(wait == .wait(until: .seconds(600)))
    }

    // MARK: Failures

    @Test("A failed fetch keeps the keys and is tried again after gaps that grow")
    func failures() {
        var machine = Self.fetched(age: 300)
        var now: Int64 = 300
        for gap in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300] as [Int64] {
            let begun = machine.due(now: .seconds(now))
            #expect(begun == .fetch)
            let failed = machine.failed(now: .seconds(now))
            #expect(failed == .wait(until: .seconds(now + gap)))
            let known = Self.look(&machine, "run-1", now)
            #expect(known.answer == "key" && known.action == .nothing)
            let early = machine.due(now: Duration.seconds(now + gap) - .milliseconds(1))
            #expect(early == .wait(until: .seconds(now + gap)))
            now += gap
        }
        _ = machine.due(now: .seconds(now))
        _ = machine.fetched(Self.keys, maxAge: .seconds(300), now: .seconds(now))
        _ = machine.due(now: .seconds(now + 300))
        let first = machine.failed(now: .seconds(now + 300))
        #expect(first == .wait(until: .seconds(now + 301)), "a success begins the gaps anew")
    }

    @Test("Without keys a failed fetch leaves tokens unverifiable, which ask again once a minute")
    func failuresWithoutKeys() {
        var machine = KeySetMachine(now: .zero)
        var now: Int64 = 0
        for _ in 0..<12 {
            _ = machine.due(now: .seconds(now))
            let action = machine.failed(now: .seconds(now))
            guard case .wait(let end) = action else {
                Issue.record("a failure is followed by a wait")
                return
            }
            now = end.components.seconds
        }
        // The last fetch began 300 s before `now`.
        let early = Self.look(&machine, "run-1", now - 241)
        #expect(early.answer == "unverifiable" && early.action == .nothing)
        let asks = Self.look(&machine, "run-1", now - 240)
        #expect(asks.answer == "unverifiable" && asks.action == .fetch)
        let failed = machine.failed(now: .seconds(now - 240))
        #expect(failed == .wait(until: .seconds(now + 60)))
    }

    @Test("A failed fetch that an unknown key asked for leaves that key unverifiable until one succeeds")
    func failureAfterUnknownKey() {
        var machine = Self.fetched(age: 86_400)
        let asks = Self.look(&machine, "other", 1_000)
        #expect(asks.answer == "possibly new" && asks.action == .fetch)
        let failed = machine.failed(now: .seconds(1_000))
        #expect(failed == .wait(until: .seconds(1_001)))
        let early = Self.look(&machine, "other", 1_000)
        #expect(early.answer == "unverifiable" && early.action == .nothing)
        let retried = Self.look(&machine, "other", 1_001)
        #expect(retried.answer == "unverifiable" && retried.action == .fetch, "the retry is due")
        _ = machine.fetched(Self.keys, maxAge: .seconds(86_400), now: .seconds(1_002))
        let refused = Self.look(&machine, "other", 1_003)
        #expect(refused.answer == "unknown" && refused.action == .nothing)
    }

    // MARK: Cache-Control

    @Test(
        "The age is read from Cache-Control",
        arguments: [
            ("public, max-age=21037, must-revalidate, no-transform", 21_037), ("max-age=0", 0), ("max-age=5", 5),
            ("Max-Age=5", 5), ("  max-age=5\t", 5), ("max-age=\"5\"", 5), ("max-age=5,max-age=9", 5),
            ("max-age=x,max-age=9", 9), ("no-store", 0), ("max-age=5, no-cache", 0), ("No-Cache", 0), ("", nil),
            ("public", nil), ("max-age", nil), ("max-age=", nil), ("max-age=-1", nil), ("max-age=1.5", nil),
            ("max-age=+1", nil), ("s-maxage=5", nil), ("max-age=\"\"", nil), ("max-age=\"", nil), (",,,", nil),
            ("max-age=99999999999999999999", 9_999_999_999), ("max-age=٥", nil),
        ] as [(String, Int64?)])
    func cacheControl(_ field: String, _ age: Int64?) {
        #expect(CacheControl.maxAge(field) == age.map { Duration.seconds($0) })
    }
}
