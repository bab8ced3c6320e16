import Testing
import Vocabulary

@testable import Ledger

/// The stored state of a purchase whose events may name nobody.
@Suite("The text of a state with nameless facts")
struct NamelessTextTests {
    private static let own = Holder.anonymous("o-1")

    private static func at(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }

    private static func nameless(_ kind: Fact.Kind, _ at: Timestamp, until: Timestamp? = nil) -> Fact {
        Fact(kind: kind, holder: own, at: at, until: until, isNamed: false)
    }

    private static func state(_ facts: [Fact]) -> PurchaseState {
        facts.reduce(PurchaseState()) { state, fact in
            TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true).state
        }
    }

    @Test("The text is what the documentation of the format says")
    func golden() throws {
        let state = Self.state([
            Self.nameless(.gain, Self.at(1_000), until: Self.at(900_000)),
            .activate(user, Self.at(2_000), until: Self.at(900_000)),
            Self.nameless(.loss, Self.at(3_000)),
        ])
        let lines = """
            fact\t2000\tgain\t900000\t-\tuser:jeff
            register\t2000\ton\ttenure\tuser:jeff
            told\t1\t0\t0\t0\t\tanon:o-1\tuser:jeff
            own\t1000\t-\tanon:o-1
            nameless\t1000\tgain\t900000\t-\ttenure\tanon:o-1
            nameless\t3000\tloss\t-\t-\ttenure\tanon:o-1
            name\t2000\tgain\tuser:jeff

            """
        let text = String(decoding: state.bytes, as: UTF8.self)
        #expect(text.hasPrefix("3\t") && text.drop { $0 != "\n" }.dropFirst() == lines)
        #expect(try PurchaseState(bytes: state.bytes) == state)
        let install = Holder.anonymous("i")
        var named = PurchaseState()
        named.mayLackName = true
        named.insert(HolderName(at: Self.at(1), kind: .given, holder: install))
        named.insert(HolderName(at: Self.at(1), kind: .link, holder: user, about: install))
        named.insert(HolderName(at: Self.at(2), kind: .naming, holder: user))
        named.insert(HolderName(at: Self.at(2), kind: .said, holder: user))
        let names = """
            name\t1\tgiven\tanon:i
            name\t1\tlink\tuser:jeff\tanon:i
            name\t2\tnaming\tuser:jeff
            name\t2\tsaid\tuser:jeff

            """
        #expect(String(decoding: named.bytes, as: UTF8.self).hasSuffix("\n" + names))
        #expect(try PurchaseState(bytes: named.bytes) == named)
    }

    @Test("A purchase of another source is written as it always was")
    func others() {
        let state = Playback([.activate(user, seconds(0)), .activate(otherUser, seconds(50))]).state
        for form in [LedgerForm.checksum, .periods, .sparseEntitlements, .saidNames] {
            #expect(state.bytes(form) == state.bytes)
        }
        #expect(state.bytes.starts(with: "2\t".utf8) && !state.mayLackName && state.names.isEmpty)
    }

    @Test("It is written whatever daemon lives beside: one that cannot read it has no source of such a kind")
    func older() {
        let state = Self.state([Self.nameless(.gain, seconds(0))])
        let forms: [LedgerForm] = [.plain, .checksum, .keylessMessages, .timedKeys, .periods]
        for form in forms { #expect(state.bytes(form) == state.bytes) }
    }

    @Test("A version that reads no names which the store said gets those that count as gains, each once and in order")
    func withoutSaid() throws {
        func said(_ holder: Holder, _ at: Int64) -> [Fact] {
            [Fact(kind: .said, holder: holder, at: seconds(at)), Self.nameless(.gain, seconds(at))]
        }
        // Bought, another account, passed on to a third, repeated.
        let third = Holder.user("third")
        let state = Self.state(
            [.activate(user, seconds(0))] + said(user, 0) + said(otherUser, 50) + [.activate(third, seconds(60))]
                + said(otherUser, 70) + [.deactivate(third, seconds(80))])
        let older = try PurchaseState(bytes: state.bytes(.sparseEntitlements))
        #expect(
            older.names == [
                HolderName(at: seconds(0), kind: .gain, holder: user),
                HolderName(at: seconds(50), kind: .gain, holder: otherUser),
                HolderName(at: seconds(60), kind: .gain, holder: third),
                HolderName(at: seconds(80), kind: .loss, holder: third),
            ])
        #expect(try PurchaseState(bytes: state.bytes) == state && PurchaseState(bytes: older.bytes) == older)
        for at in [0, 50, 60, 70, 80] as [Int64] {
            #expect(older.account(at: seconds(at)) == state.account(at: seconds(at)), "\(at)")
        }
        // What is repeated after it is no news to either.
        let renewed = said(otherUser, 90).reduce(older) { state, fact in
            TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true).state
        }
        #expect(renewed.account(at: seconds(90)) == third)
    }

    @Test("What this build would not write is refused")
    func strict() {
        let holder = "anon:a"
        let cases = [
            "own\t1\t-\t\(holder)\nown\t1\t-\t\(holder)\n", "own\t1\tno\t\(holder)\n",
            "nameless\t1\tgain\t-\t-\tboth\t\(holder)\n",
            "nameless\t2\tgain\t-\t-\tfree\t\(holder)\nnameless\t1\tgain\t-\t-\tfree\t\(holder)\n",
            "name\t1\tgain\tuser:u\nname\t1\tgain\tuser:u\n", "name\t1\tgain\tuser:u\nown\t1\t-\t\(holder)\n",
            "own\t1\n", "name\t1\tboth\tuser:u\n", "name\t1\tgain\tuser:u\nname\t1\tnaming\tuser:u\n",
            "name\t1\tlink\tuser:u\n", "name\t1\tgain\tuser:u\t\(holder)\n",
        ]
        for lines in cases {
            let state = PurchaseState.sealed(version: 3, Array(lines.utf8))
            #expect(throws: PurchaseState.Unreadable.self) { try PurchaseState(bytes: state) }
        }
        // In the version before they are those of a newer one.
        let older = PurchaseState.sealed(version: 2, Array("own\t1\t\(holder)\n".utf8))
        #expect((try? PurchaseState(bytes: older))?.unknownLines == Array("own\t1\t\(holder)\n".utf8))
    }

    @Test("Renaming an erased person renames it in facts without a name, and in names")
    func renaming() throws {
        let state = Self.state([
            Self.nameless(.gain, seconds(0), until: seconds(100)), .activate(user, seconds(50)),
            Self.nameless(.gain, seconds(90)),
        ])
        let ids = [
            ErasedID(holder: user, standIn: .user("x1")), ErasedID(holder: Self.own, standIn: .anonymous("x2")),
        ]
        #expect(state.holders == [user, Self.own])
        let renamed = state.renaming(ids)
        #expect(renamed.holders == [.user("x1"), .anonymous("x2")])
        #expect(Timeline(renamed).access[.user("x1")] == Timeline(state).access[user])
        #expect(Timeline(renamed).transfers.map(\.at) == Timeline(state).transfers.map(\.at))
        #expect(try PurchaseState(bytes: renamed.bytes) == renamed)
    }

    @Test("What the store says of an erased account, which nobody can compare any more, takes a purchase from nobody")
    func erasedAccount() {
        func holders(_ facts: [Fact]) -> [Holder] {
            let erased = Self.state(facts).renaming([
                ErasedID(holder: user, standIn: ErasedID.standIn("0123456789abcdef"))
            ])
            var renewed = erased
            for at in [100, 200] as [Int64] {
                for fact in [
                    Fact(kind: .said, holder: user, at: seconds(at)), Self.nameless(.gain, seconds(at)),
                ] {
                    renewed =
                        TransferResolution.resolve(renewed, fact, kind: .subscription, mayLackName: true).state
                }
            }
            return Timeline(renewed).access.filter(\.value.isActive).map(\.key)
        }
        let bought = [Fact(kind: .said, holder: user, at: seconds(0)), .activate(user, seconds(0))]
        let passed = bought + [.activate(otherUser, seconds(50))]
        #expect(holders(passed) == [otherUser])
        #expect(holders(Array(passed.dropFirst())) == [otherUser], "what the store said before is not known")
        #expect(holders(bought) == [user], "nobody else has it")
        func erasing(_ holder: Holder, _ said: Holder) -> PurchaseState {
            Self.state(passed + [Fact(kind: .said, holder: said, at: seconds(100))])
                .renaming([ErasedID(holder: holder, standIn: ErasedID.standIn("0123456789abcdef"))])
        }
        // What counted goes on counting, and what did not does not.
        let third = Holder.user("third")
        #expect(erasing(user, third).account(at: seconds(100)) == third)
        let erased = erasing(otherUser, user)
        #expect(erased.account(at: seconds(100)).map(ErasedID.isStandIn) == true)
        let renewed = TransferResolution.resolve(
            erased, Fact(kind: .said, holder: user, at: seconds(200)), kind: .subscription, mayLackName: true)
        #expect(renewed.state.account(at: seconds(200)) == user, "nobody has it any more")
    }

    @Test("A restore that is still kept as a move counts beside names: for an erasure, and for an older version")
    func restoredByMove() throws {
        var state = Self.state([Fact(kind: .said, holder: user, at: seconds(0)), .activate(user, seconds(0))])
        state.insert(KeptMove(at: seconds(50), from: nil, to: otherUser, isLogin: false))
        for fact in [Fact(kind: .said, holder: user, at: seconds(100)), Self.nameless(.gain, seconds(100))] {
            state = TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true).state
        }
        func account(_ state: PurchaseState) -> Holder? { state.account(at: seconds(100)) }
        func erasing(_ holder: Holder) -> PurchaseState {
            state.renaming([ErasedID(holder: holder, standIn: ErasedID.standIn("0123456789abcdef"))])
        }
        #expect(state.moves.count == 1 && account(state) == otherUser)
        #expect(account(erasing(user)) == otherUser && account(erasing(Self.own)) == otherUser)
        #expect(account(erasing(otherUser)).map(ErasedID.isStandIn) == true)
        #expect(account(try PurchaseState(bytes: state.bytes(.sparseEntitlements))) == otherUser)
    }
}
