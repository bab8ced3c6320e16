import Testing
import Vocabulary

@testable import Ledger

/// The stored form of `PurchaseState`: it comes back as it was, can be searched for ids, and nothing else is read.
@Suite("The text of a purchase's state")
struct TransferResolutionTextTests {
    private static let ids = [
        "jeff", "", "a\tb", "line\nbreak\r\n", "back\\slash\\t", "user:anon:x", "\u{301}combining first", "é",
        "e\u{301}",
        "🏤", "1,2", "-", String(repeating: "x", count: 1_024), "\u{7f}\u{1}",
    ]

    private static func holder(_ dice: inout Dice) -> Holder {
        let id = ids.randomElement(using: &dice) ?? ""
        return dice.chance(50) ? .user(id) : .anonymous(id)
    }

    private static func randomState(_ dice: inout Dice) -> PurchaseState {
        var playback = Playback()
        for _ in 0..<Int.random(in: 0...12, using: &dice) {
            let at = Timestamp(milliseconds: Int64.random(in: -5...5_000_000_000, using: &dice))
            let fact = Fact(
                kind: [.gain, .loss, .transferred, .received].randomElement(using: &dice) ?? .gain,
                holder: holder(&dice), counterpart: dice.chance(70) ? holder(&dice) : nil, at: at,
                until: dice.chance(70) ? at.advanced(byMilliseconds: 1_000_000_000) : nil,
                isRevoked: dice.chance(20), isFamilyShared: dice.chance(20))
            playback.play(fact)
        }
        return playback.state
    }

    @Test("Round trip of random states with every kind of id")
    func roundTrip() throws {
        var dice = Dice(state: 61)
        for _ in 0..<400 {
            let state = Self.randomState(&dice)
            let again = try PurchaseState(bytes: state.bytes)
            #expect(again == state)
            // A daemon of an older version writes the moves as facts; of such a state there are none here.
            #expect(try PurchaseState(bytes: state.bytes(.plain)) == state.withoutMoves())
            #expect(again.bytes == state.bytes)
        }
    }

    @Test(
        "A long history, compacted again and again, stays readable: its counts are accounted for",
        arguments: [2, 3, 6, 40])
    func longHistories(holders: Int) throws {
        var dice = Dice(state: 62)
        var playback = Playback()
        for step in 0..<1_500 {
            let at = seconds(Int64(step) * 40_000 + Int64.random(in: -200_000...200_000, using: &dice))
            func someone() -> Holder { .user("u\(Int.random(in: 0..<holders, using: &dice))") }
            let kind = [.gain, .loss, .transferred, .received].randomElement(using: &dice) ?? Fact.Kind.gain
            playback.play(
                Fact(
                    kind: kind, holder: someone(), counterpart: dice.chance(70) ? someone() : nil, at: at,
                    until: dice.chance(70) ? at.advanced(byMilliseconds: 1_000_000_000) : nil,
                    isRevoked: dice.chance(20)))
            if step % 10 == 0 { #expect(try PurchaseState(bytes: playback.state.bytes) == playback.state) }
        }
    }

    @Test("Voids, settled counts and forgotten numbers come back too")
    func rareFields() throws {
        var state = PurchaseState()
        state.announced = [
            AnnouncedPair(
                from: anonymous, to: user, lastOrdinal: 7, voided: [seconds(1), seconds(2)], settledChanges: -3,
                settledTransferred: 4, settledReceived: 5)
        ]
        state.forgottenOrdinal = 7
        #expect(try PurchaseState(bytes: state.bytes) == state)
    }

    @Test("The text is what the documentation of the format says; ids stand in it as they are")
    func golden() {
        let state = Playback([
            .activate(anonymous, Timestamp(milliseconds: 1_000), until: Timestamp(milliseconds: 900_000)),
            .transferred(
                anonymous, to: .user("jeff é\t1"), Timestamp(milliseconds: 2_000),
                until: Timestamp(milliseconds: 900_000)),
        ]).state
        let id = anonymous.id
        let text = """
            2\t29b709cb283f21e2
            fact\t1000\tgain\t900000\t-\tanon:\(id)
            fact\t2000\tloss\t900000\t-\tanon:\(id)
            fact\t2000\tgain\t900000\t-\tuser:jeff é\\t1
            native\t2000\ttransferred\tanon:\(id)\tuser:jeff é\\t1
            register\t2000\toff\ttenure\tanon:\(id)
            register\t2000\ton\ttenure\tuser:jeff é\\t1
            told\t1\t0\t0\t0\t\tanon:\(id)\tuser:jeff é\\t1

            """
        #expect(String(decoding: state.bytes, as: UTF8.self) == text)
        #expect(PurchaseState().bytes == Array("2\te3b0c44298fc1c14\n".utf8))
        #expect(PurchaseState().bytes(.plain) == Array("1\n".utf8))
    }

    @Test("Moves, earlier statements and the times of values come back; in the older form a move is a fact")
    func moves() throws {
        var state = PurchaseState()
        state = TransferResolution.resolve(state, .activate(anonymous, seconds(0)), kind: .subscription).state
        let login = KeptMove(at: seconds(10), from: anonymous, to: user, isLogin: true)
        state = TransferResolution.resolve(state, [], moves: [login], kind: .subscription).state
        state.insert(KeptMove(at: seconds(20), from: nil, to: otherUser, isLogin: false))
        state.keepEarlier(Register(holder: user, at: seconds(1), isOn: true, isTenureFree: true))
        state.valueTimes = [.product: seconds(3), .plan: seconds(2)]
        #expect(try PurchaseState(bytes: state.bytes) == state)
        let older = try PurchaseState(bytes: state.bytes(.plain))
        #expect(older.moves.isEmpty && older.facts.map(\.holder).contains(user))
        #expect(Timeline(older).access == Timeline(state).access)
    }

    @Test("Lines that a newer version added stay where they are")
    func unknownLines() throws {
        var state = Playback([.activate(user, seconds(0))]).state
        state.unknownLines = Array("zone\t1\nzone\t2\n".utf8)
        let again = try PurchaseState(bytes: state.bytes)
        #expect(again == state && again.bytes == state.bytes)
        let next = TransferResolution.resolve(again, .activate(user, seconds(50)), kind: .subscription).state
        #expect(next.unknownLines == state.unknownLines)
    }

    @Test("What this build would not write is refused, with the line and without quoting it")
    func strict() {
        let cases: [(String, Int, String)] = [
            ("", 1, "empty"), ("1", 1, "it does not end"), ("4\n", 1, "not of version 1, 2 or 3"),
            ("3\n", 1, "fewer fields than expected"), ("1\textra\n", 1, "more fields than expected"),
            ("1\nfact\t1\n", 2, "fewer fields than expected"),
            ("1\nnews\t1\n", 2, "unknown kind of line"), ("1\nfact\t01\tgain\t1\t-\tuser:a\n", 2, "not a number"),
            ("1\nfact\t+1\tgain\t1\t-\tuser:a\n", 2, "not a number"),
            ("1\nfact\t1\tgains\t1\t-\tuser:a\n", 2, "neither gain nor loss"),
            ("1\nfact\t1\tgain\t1\t-\ta\n", 2, "not a holder"),
            ("1\nfact\t1\tgain\t1\t-\tuser:\\x\n", 2, "an unknown escape"),
            ("1\nfact\t1\tgain\t1\t-\tuser:\\\n", 2, "an unknown escape"),
            ("1\nfact\t1\tgain\t1\t-\tuser:\r\n", 2, "a control character that is not escaped"),
            ("1\nregister\t1\ton\tfree\tuser:b\nregister\t1\ton\tfree\tuser:a\n", 3, "out of order"),
            ("1\nregister\t1\ton\tfree\tuser:a\nregister\t2\ton\tfree\tuser:a\n", 3, "out of order"),
            ("1\nregister\t1\ton\tfree\tuser:a\nfact\t1\tgain\t1\t-\tuser:a\n", 3, "out of order"),
            ("1\ntold\t1\t0\t0\t0\t1,\tuser:a\tuser:b\n", 2, "not a number"),
            ("1\ntold\t2\t1\t0\t0\t\tuser:a\tuser:b\n", 2, "a number of transfers that nothing shows"),
            ("1\ntold\t1\t0\t2\t0\t\tuser:a\tuser:b\n", 2, "a number of transfers that nothing shows"),
            (
                "1\ntold\t9223372036854775807\t0\t9223372036854775807\t0\t\tuser:a\tuser:b\n", 2,
                "a number of transfers that nothing shows"
            ),
            ("1\nforgotten\t1000000001\n", 2, "out of order"),
            ("1\ntold\t1\t0\t0\t0\t2,1\tuser:a\tuser:b\n", 2, "out of order"),
            ("1\nforgotten\t0\n", 2, "out of order"),
        ]
        for (text, line, reason) in cases {
            #expect(throws: PurchaseState.Unreadable(line: line, reason: reason)) {
                try PurchaseState(bytes: Array(text.utf8))
            }
        }
        #expect(throws: PurchaseState.Unreadable(line: 2, reason: "not UTF-8")) {
            try PurchaseState(bytes: Array("1\nfact\t1\tgain\t1\t-\tuser:".utf8) + [0xff, 0x0a])
        }
    }

    @Test("A damaged byte is refused by the checksum: never guessed")
    func damage() {
        var dice = Dice(state: 67)
        for _ in 0..<700 {
            let whole = Self.randomState(&dice).bytes
            var bytes = whole
            let index = bytes.indices.randomElement(using: &dice) ?? 0
            switch Int.random(in: 0...2, using: &dice) {
            case 0: bytes[index] = UInt8.random(in: 0...255, using: &dice)
            case 1: bytes.remove(at: index)
            default: bytes.removeSubrange(index...)
            }
            if bytes == whole { continue }
            #expect(throws: PurchaseState.Unreadable.self) { try PurchaseState(bytes: bytes) }
        }
    }
}
