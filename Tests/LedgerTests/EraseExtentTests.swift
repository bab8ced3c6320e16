import Postgres
import TestSupport
import Testing
import Vocabulary

@testable import Ledger

/// What an erasure takes with it, and what it must leave to others. Oracle: SQL.
@Suite("How far an erasure goes")
struct EraseExtentTests {
    private static let jeff = Holder.user("jeff-9f3c")
    private static let ann = Holder.user("ann")
    private static let bob = Holder.user("bob")

    @Test("A purchase whose holders are erased one after the other goes with the last of them, and not before")
    func oneAfterTheOther() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let lives = [("subs_2", [Self.ann, Self.jeff]), ("subs_5", [Self.ann, Self.jeff, Self.bob])]
            for (purchase, holders) in lives {
                for (number, holder) in holders.enumerated() {
                    let fact = Fact.activate(holder, seconds(Int64(number) * 100), until: seconds(10_000))
                    await daemon.record([.stating(fact, purchase: purchase, transaction: "t_\(purchase)")])
                }
            }
            for (holder, left) in [(Self.jeff, "subs_2 subs_5"), (Self.ann, "subs_5")] {
                let erasure = try await Erasure.start(holder, source: nil, isDry: false, in: daemon.pool)
                _ = try await erasure.run(in: daemon.pool) { _ in }
                #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
                #expect(try ledger.psql("SELECT string_agg(key, ' ' ORDER BY key) FROM purchases") == left)
            }
            #expect(try ledger.psql("SELECT count(*) FROM transactions") == "1")
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:bob")
        }
    }

    @Test(
        "What another's webhook said of what it got from the person is still to be delivered, without the person",
        arguments: [false, true])
    func receivedOfAnother(isDead: Bool) async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a", order: .none)])
            daemon.open("a")
            for (holder, at) in [(Self.jeff, 0), (Self.ann, 100)] as [(Holder, Int64)] {
                await daemon.record([.stating(.activate(holder, seconds(at), until: seconds(10_000)))])
            }
            let taken = daemon.inbox.take()
            try #require(taken.count == 4)
            if isDead {
                let settlements = taken.map { $0.settled(.dead(reason: "answered 400"), status: 400) }
                _ = try await daemon.queue.settle(settlements)
            } else {
                try await daemon.queue.giveBack(taken)
            }
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            let dry = try await erasure.proof.run(in: daemon.pool) { _ in }
            let done = try await erasure.run(in: daemon.pool) { _ in }
            #expect(done.messages == 2 && done.deliveries == (isDead ? 0 : 2) && done.mentions == 1, "\(done)")
            #expect(dry.messages == done.messages && dry.deliveries == done.deliveries && dry.mentions == 1, "\(dry)")
            let left = try await erasure.proof.run(in: daemon.pool) { _ in }
            #expect(left.total == 0, "\(left)")
            let table = isDead ? "dead_letters" : "deliveries"
            #expect(
                try ledger.psql(
                    """
                    SELECT string_agg(m.type, ' ' ORDER BY m.id) FROM messages m JOIN \(table) d ON d.message = m.id
                    """) == "ACTIVATE SUBSCRIPTION_RECEIVED")
            let texts = try ledger.psql(
                """
                SELECT convert_from(envelope || derived_body, 'UTF8') FROM messages WHERE type = 'SUBSCRIPTION_RECEIVED'
                """)
            let parties = #""from":{"user_id":"erased"},"to":{"user_id":"ann"}"#
            #expect(texts.contains(parties) && !texts.contains(Self.jeff.id), "\(texts)")
            if isDead { return }
            let claimed = try await daemon.claimAll("a").map(\.message)
            #expect(Set(claimed.map(\.type)) == ["ACTIVATE", "SUBSCRIPTION_RECEIVED"])
            #expect(claimed.allSatisfy { $0.purchaseKey == "subs_1" })
        }
    }

    @Test("A message whose event is not kept any more is erased, too; so is an id that an encoder has escaped")
    func withoutItsEvent() async throws {
        try await TestLedger.run { ledger in
            let person = Holder.user("jeff&co-9f3c")
            let daemon = try await ledger.daemon([.named("a")])
            await daemon.record([.stating(.activate(person, seconds(0), until: seconds(10_000)))])
            try ledger.psql("DELETE FROM events; DELETE FROM deliveries")
            await daemon.record([
                .quarantine(
                    QuarantinedBody(
                        source: "shop", reason: "odd", body: Array(#"{"friend":"jeff\u0026co-9f3c"}"#.utf8)))
            ])
            let named = "SELECT count(*) FROM messages WHERE convert_from(envelope, 'UTF8') LIKE '%jeff%'"
            #expect(try ledger.psql(named) == "1")
            let erasure = try await Erasure.start(person, source: nil, isDry: false, in: daemon.pool)
            let done = try await erasure.run(in: daemon.pool) { _ in }
            #expect(done.mentions == 1 && done.quarantined == 1, "\(done)")
            #expect(try ledger.psql(named) == "0" && ledger.psql("SELECT count(*) FROM quarantine") == "0")
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
        }
    }

    @Test("What a statement about all purchases of the person said of another goes with the transfers")
    func receivedByMove() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let gain = Fact.activate(Self.jeff, seconds(0), until: seconds(10_000))
            await daemon.record([.stating(gain, source: "moving")])
            await daemon.record([
                .change(.move(from: [Self.jeff], to: Self.ann, isNative: true), by: Self.ann, at: 100, source: "moving")
            ])
            let received = "SELECT count(*) FROM messages WHERE type = 'SUBSCRIPTION_RECEIVED'"
            #expect(try ledger.psql(received) == "1")
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            let dry = try await erasure.proof.run(in: daemon.pool) { _ in }
            let done = try await erasure.run(in: daemon.pool) { _ in }
            #expect(dry.deliveries == done.deliveries && dry.messages == done.messages && done.messages == 3)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(try ledger.psql(received) == "0")
            // What she has is known, and a trace of her says so.
            #expect(try ledger.psql("SELECT holder FROM entitlements WHERE active") == "user:ann")
            let trace = try #require(await Trace.read(EventHandle(.user, "ann"), from: daemon.pool))
            #expect(trace.holdings.map(\.holder) == ["user:ann"] && trace.holdings.map(\.purchase) == ["subs_1"])
        }
    }

    @Test("A device that the user has logged out of goes with the user")
    func loggedOut() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let device = Holder.anonymous("tablet-7d1e")
            await daemon.record([
                .stating(.activate(device, seconds(1), until: seconds(10_000)), source: "moving")
            ])
            let login = HolderChange.move(from: [device], to: Self.ann, isNative: false)
            await daemon.record([.change(login, by: device, at: 10, source: "moving")])
            let logout = HolderLink(anonymousID: device.id, userID: nil)
            await daemon.record([
                Event(
                    scope: Scope(source: "moving", app: "app.one", environment: "PRODUCTION"), vendorEventID: nil,
                    name: "LOGOUT", type: "LOGOUT", holder: device, occurredAt: seconds(20), purchase: nil,
                    transaction: nil, links: [logout], body: Array("{}".utf8))
            ])
            #expect(try ledger.psql("SELECT count(*) FROM holder_links WHERE user_id IS NOT NULL") == "0")

            let erasure = try await Erasure.start(Self.ann, source: nil, isDry: false, in: daemon.pool)
            #expect(erasure.holders == [Self.ann, device], "\(erasure.holders)")
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(try ledger.psql("SELECT count(*) FROM events") == "0")
        }
    }

    @Test("A device from which a restore took a purchase is not the user who got it: what it has stays")
    func restoredFrom() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let (device, phone) = (Holder.anonymous("tablet-7d1e"), Holder.anonymous("phone-02c4"))
            for purchase in ["subs_1", "subs_3"] {
                let gain = Fact.activate(device, seconds(1), until: seconds(10_000))
                await daemon.record([
                    .stating(gain, purchase: purchase, transaction: "t_\(purchase)", source: "moving")
                ])
            }
            let restore = HolderChange.restore(install: phone.id, transactions: ["t_subs_1"], strategy: .transfer)
            let login = HolderLink(anonymousID: phone.id, userID: Self.bob.id)
            await daemon.record([.change(restore, by: phone, at: 20, source: "moving", links: [login])])
            #expect(try ledger.psql("SELECT count(*) FROM transfers") == "1")

            let erasure = try await Erasure.start(Self.bob, source: nil, isDry: false, in: daemon.pool)
            #expect(erasure.holders == [Self.bob, phone], "\(erasure.holders)")
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            let active = """
                SELECT p.key, e.holder FROM entitlements e JOIN purchases p ON p.id = e.purchase WHERE e.active
                """
            #expect(try ledger.psql(active) == "subs_3|\(device.storageKey)")
        }
    }

    @Test("In quarantine a short id is looked for as in others' webhooks; as a word only in what is not JSON")
    func shortIDs() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            func kept(_ body: String, _ reason: String = "odd") -> RecordQueue.Item {
                .quarantine(QuarantinedBody(source: "shop", reason: reason, body: Array(body.utf8)))
            }
            await daemon.record([
                kept(#"{"user_id":"bob","quantity":1}"#), kept(#"{"user_id":"ann"}"#, "line 1 is too long"),
                kept(#"{"user_id":"amy"}"#, "the stored state of its purchase GPA.1-2 cannot be read (line 3)"),
                kept(#"{"user_id":1}"#), kept("user=1"),
            ])
            let erasure = try await Erasure.start(.user("1"), source: nil, isDry: false, in: daemon.pool)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.quarantined == 4)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.quarantined == 4)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(
                try ledger.psql("SELECT convert_from(body, 'UTF8'), reason FROM quarantine ORDER BY body DESC")
                    == """
                    {"user_id":"bob","quantity":1}|odd
                    {"user_id":"ann"}|erased
                    {"user_id":"amy"}|the stored state of its purchase erased cannot be read
                    """)
        }
    }

    @Test("In quarantine an id that is a number is not taken for an amount, a version or a count of the same digits")
    func numbersOfThings() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            func kept(_ body: String) -> RecordQueue.Item {
                .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: Array(body.utf8)))
            }
            let others = [
                #"{"unit_amount_decimal":"799","metadata":{"user_id":"bob"}}"#, #"{"bundleVersion" : "799"}"#,
                #"{"text":"{\"units\":\"799\"}"}"#, #"{"appAppleId":799,"storefrontId":"799"}"#,
            ]
            await daemon.record(others.map(kept))
            await daemon.record([
                kept(#"{"units":"799","member":"799"}"#), kept(#"{"aliases":["799"]}"#),
                kept(#"{"text":"{\"uid\":\"799\"}"}"#), kept(#"{"app_user_id":799}"#),
            ])
            let erasure = try await Erasure.start(.user("799"), source: nil, isDry: false, in: daemon.pool)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.quarantined == 4)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(
                try ledger.psql("SELECT convert_from(body, 'UTF8') FROM quarantine").split(separator: "\n").sorted()
                    == others.sorted().map { $0[...] })
        }
    }

    @Test("The last word of a member's name says whether digits are a person's or a thing's")
    func memberNames() {
        func namesNoPerson(_ name: String) -> Bool? {
            let text = Array(#"{"x":"1","\#(name)" : "#.utf8)
            return MemberName(before: text.endIndex, in: text)?.namesNoPerson
        }
        for name in ["unitAmountDecimal", "os_version", "expires_date_ms", "last4", "storefrontId", "appAppleId"] {
            #expect(namesNoPerson(name) == true, "\(name)")
        }
        let persons = ["id", "userID", "app_user_id", "uid", "customer", "chat", "originalTransactionId", "value", ""]
        for name in persons + ["customer_code", "userState", "member_status", "accountType", "user_sequence"] {
            #expect(namesNoPerson(name) == false, "\(name)")
        }
        let text = Array(#"{"prices":[1,"#.utf8)
        #expect(MemberName(before: text.endIndex, in: text) == nil && MemberName(before: 1, in: text) == nil)
    }

    @Test("In quarantine the person is looked for in an event's id, too, which a header may have given")
    func eventIDs() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            func kept(_ body: String, id: String?) -> RecordQueue.Item {
                .quarantine(QuarantinedBody(source: "shop", reason: "odd", body: Array(body.utf8), eventID: id))
            }
            let own = kept("{}", id: "login-jeff-1")
            await daemon.record([own, kept("[]", id: "login-jefferson-1"), kept("7", id: nil)])
            let erasure = try await Erasure.start(user, source: nil, isDry: false, in: daemon.pool)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.quarantined == 1)
            #expect(try await erasure.run(in: daemon.pool) { _ in }.quarantined == 1)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(await daemon.record([own]) == [.stored])
            let left = "SELECT convert_from(body, 'UTF8'), convert_from(event_id, 'UTF8') FROM quarantine ORDER BY id"
            #expect(try ledger.psql(left) == "[]|login-jefferson-1\n7|")
        }
    }

    @Test("The install that identified first is erased: the next one is still not the first, but may be linked")
    func firstInstall() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon()
            let (one, two) = (Holder.anonymous("tablet-7d1e"), Holder.anonymous("phone-02c4"))
            func identified(_ install: Holder, at time: Int64) -> Event {
                .change(.identify(install: install.id, identity: Self.ann.id), by: install, at: time, source: "shared")
            }
            await daemon.record([identified(one, at: 10)])
            await daemon.record([.stating(.activate(two, seconds(20), until: seconds(10_000)), source: "shared")])
            await daemon.record([identified(two, at: 30)])
            let holders = "SELECT string_agg(holder, ' ' ORDER BY holder) FROM entitlements"
            #expect(try ledger.psql(holders) == two.storageKey)
            let erasure = try await Erasure.start(one, source: nil, isDry: false, in: daemon.pool)
            _ = try await erasure.run(in: daemon.pool) { _ in }
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            #expect(try ledger.psql("SELECT identity FROM install_identities WHERE install LIKE 'erased-%'") == "ann")
            await daemon.record([identified(two, at: 40)])
            #expect(try ledger.psql(holders) == two.storageKey && daemon.log.recorded(duplicate: true).isEmpty)
            // Whoever asks for the identity's install is given no stand-in, and its erasure erases no other person.
            let install = try await HolderLookup(pool: daemon.pool).install(
                identifiedAs: Self.ann.id, of: "shared", app: "app.one", environment: nil)
            #expect(install?.id == two.id)
            let next = try await Erasure.start(Self.ann, source: nil, isDry: true, in: daemon.pool)
            #expect(next.holders == [Self.ann, two])
        }
    }

    @Test("An identity whose first install was erased may be claimed by the install it is linked with, or else by one")
    func claimed() {
        let scope = Scope(source: "shared", app: "app.one", environment: "PRODUCTION")
        for (linked, mayClaim) in [([], true), (["phone"], false), (["other"], true)] as [([String], Bool)] {
            var known = HolderKnowledge()
            let key = HolderKnowledge.IdentityKey(scope: scope, identity: Self.ann)
            known.load(HolderKnowledge.Identity(first: "erased-0123456789abcdef", linked: linked), of: key)
            #expect(known.mayClaim(Self.ann.id, install: "other", scope: scope, at: seconds(0)) == mayClaim)
            let isFirst = known.identify(Self.ann.id, install: "other", scope: scope, event: 1, isHolder: false)
            #expect(!isFirst && known.newIdentities.map(\.install) == [mayClaim ? "other" : linked[0]])
            #expect(!known.mayClaim(Self.ann.id, install: "third", scope: scope, at: seconds(0)))
            // Brought by a line of the same batch, it is one row all the same.
            var learned = HolderKnowledge()
            learned.addFirst(Self.ann.id, install: "erased-0123456789abcdef", scope: scope, event: 1)
            _ = learned.identify(Self.ann.id, install: "other", scope: scope, event: 2, isHolder: false)
            #expect(learned.newIdentities.map { "\($0.install) \($0.event)" } == ["other 1"])
            // A line names who took the place; the ledger may have the stand-in from an older backup.
            var restored = HolderKnowledge()
            restored.load(HolderKnowledge.Identity(first: "erased-0123456789abcdef", linked: linked), of: key)
            for install in ["other", "third"] {
                restored.addFirst(Self.ann.id, install: install, scope: scope, event: 1)
            }
            #expect(restored.newIdentities.map(\.install) == ["other"])
        }
    }

    @Test("A page has fewer rows the more is searched for, and never none")
    func pageRows() {
        #expect([0, 200, 2_000, 10_000_000].map(EraseScans.pageRows) == [2_000, 500, 50, 1])
    }

    @Test("A person with many ids is erased, over pages that are the smaller for it")
    func manyIDs() async throws {
        try await TestLedger.run { ledger in
            let daemon = try await ledger.daemon([.named("a")])
            let scope = Scope(source: "shop", app: "app.one", environment: "PRODUCTION")
            let installs = (100..<180).map { "device-\($0)" }
            await daemon.record(
                installs.map { install in
                    Event(
                        scope: scope, vendorEventID: install, name: "LINKED", type: "LINKED",
                        holder: .anonymous(install), occurredAt: seconds(0), purchase: nil, transaction: nil,
                        links: [HolderLink(anonymousID: install, userID: Self.jeff.id)],
                        body: Array(#"{"install":"\#(install)"}"#.utf8))
                })
            await daemon.record(
                (0..<400).map { number -> Event in
                    let friend = number.isMultiple(of: 100) ? installs[number / 100] : "nobody"
                    return .sample(
                        "NOTE", holder: Self.bob, purchase: nil, transaction: nil, vendorEventID: "note-\(number)",
                        body: #"{"friend":"\#(friend)","number":\#(number)}"#)
                })
            let erasure = try await Erasure.start(Self.jeff, source: nil, isDry: false, in: daemon.pool)
            #expect(erasure.holders.count == 1 + installs.count)
            let (clear, sealed) = (erasure.ids.needles, erasure.ids.sealedNeedles)
            #expect(EraseScans.pageRows(needles: clear.count + sealed.count) < 400, "there are several pages")
            #expect(try await erasure.run(in: daemon.pool) { _ in }.events == installs.count)
            #expect(try await erasure.proof.run(in: daemon.pool) { _ in }.total == 0)
            func count(_ text: String) throws -> String {
                try ledger.psql("SELECT count(*) FROM events WHERE convert_from(body, 'UTF8') LIKE '%\(text)%'")
            }
            #expect(try count("device-") == "0" && count("\"erased\"") == "4" && count("nobody") == "396")
        }
    }

    @Test("An id counts as a whole string, in every spelling of JSON; never as a part of a longer one")
    func spellings() {
        func id(_ text: String) -> [ErasedID] { [ErasedID(holder: .user(text), standIn: .anonymous("x"))] }
        func redacted(_ text: String, _ body: String) -> String? {
            id(text).redacted(Array(body.utf8)).map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(
            redacted("jeff", #"{"a":"jeff","b":["jeffrey","xjeff"]}"#) == #"{"a":"erased","b":["jeffrey","xjeff"]}"#)
        #expect(redacted("jeff", #"{"a":"jeffrey"}"#) == nil)
        #expect(
            redacted("a/ü", #"{"a":"a\/\u00fc","b":"a/\u00FC","c":"a/ü"}"#)
                == #"{"a":"erased","b":"erased","c":"erased"}"#)
        #expect(
            redacted("123", #"{"id":123,"userId" : 123,"x":"{\"user_id\":123}","id":"123","price":123,"ids":[123]}"#)
                == #"{"id":0,"userId" : 0,"x":"{\"user_id\":0}","id":"erased","price":123,"ids":[123]}"#)
        #expect(redacted("123", #"{"id":1234,"a_id":123.5,"b_id":0123,"c_id":123e4}"#) == nil)
        let paid =
            #""money":{"amount":"10","currency":"EUR","amount_usd":"10","amount_eur":null,"proceeds_usd":null,"#
            + #""tax":"10","commission":null,"is_refund":false}"#
        #expect(redacted("10", #"{\#(paid),"a":"10",\#(paid)}"#) == #"{\#(paid),"a":"erased",\#(paid)}"#)
        #expect(redacted("EUR", "{\(paid)}") == nil)
        #expect(
            redacted("10", #"{"money":{"amount":"10","payer":"10"},\#(paid)}"#)
                == #"{"money":{"amount":"10","payer":"erased"},\#(paid)}"#, "a platform's own")
        #expect(redacted("😀", #"["\ud83d\ude00"]"#) == #"["erased"]"#)
        #expect(redacted(#"q"\"#, #"["q\"\\"]"#) == #"["erased"]"#)
        #expect(id("jeff").occur(in: Array("user=jeff;".utf8)) && id("jeff").occur(in: Array("jeff".utf8)))
        #expect(!id("jeff").occur(in: Array("jeffrey, jeff_2".utf8)))
        #expect(id("a.b|c").expression.contains(#"(a\.b\|c)"#))
    }
}
