import Testing
import Vocabulary

@testable import Ledger

/// Oracle: lines written out by hand.
@Suite("A line of an import")
struct ImportLineTests {
    private static let head = #""source":"shop","app":"app.one","environment":"PRODUCTION""#
    private static let whole = """
        {"event_name":"posthouse.import",\(head),"holder":{"user_id":"ann"},"as_of":"2026-01-02T03:04:05.000Z",\
        "until":null,"store":"APPLE_APP_STORE","purchase":"p1","kind":"subscription","active":null,"product":"gold",\
        "plan":"monthly","subscription_id":"s1","transaction_id":"t2","original_transaction_id":"t1",\
        "offer_type":"NONE","previous_offer_type":"FREE_TRIAL","status":"ACTIVE",\
        "purchased_at":"2026-01-01T00:00:00.000Z","stated_at":"2026-01-02T00:00:00.000Z","family":true,\
        "refunded":true,"links":["device"],"transfers":[{"from":{"anonymous_user_id":"device"},\
        "to":{"user_id":"ann"},"ordinal":2}]}
        """

    private static func read(_ text: String) throws(ImportFault) -> ImportLine {
        try ImportLine.read(Array(text.utf8)).line
    }

    private static func text(of line: ImportLine) -> String { String(decoding: line.canonical, as: UTF8.self) }

    @Test("A line that has everything is its own canonical form, and is read from a stored body")
    func whole() throws {
        let line = try Self.read(Self.whole)
        #expect(Self.text(of: line) == Self.whole)
        #expect(ImportLine.stored(line.event.body) == line)
        #expect(line.event.type == "SUBSCRIPTION_REFUNDED_REVOKED")
        #expect(line.event.asOf == Timestamp(iso8601: "2026-01-02T00:00:00Z"))
        let from = Holder.anonymous("device")
        #expect(
            line.event.facts == [
                Fact(kind: .passed(times: 2), holder: .user("ann"), counterpart: from, at: line.asOf)
            ])
    }

    @Test(
        "A time that no webhook may have is refused, but for lines that were taken once",
        arguments: [
            (#""until":null"#, #""until":-9223372036854775808"#), (#""until":null"#, #""until":1767323046000000"#),
            (#""as_of":"2026-01-02T03:04:05.000Z""#, #""as_of":-62167219200001"#),
            (#""purchased_at":"2026-01-01T00:00:00.000Z""#, #""purchased_at":253402300800000"#),
        ])
    func farTimes(_ part: String, _ other: String) throws {
        let range = try #require(Self.whole.firstRange(of: part))
        let marked = Self.whole.replacingCharacters(range, with: other)
        #expect(ImportLine.stored(Array(marked.utf8)) != nil)
        let fresh = marked.replacing(#""event_name":"posthouse.import","#, with: "")
        let fault = #expect(throws: ImportFault.self) { _ = try Self.read(fresh) }
        #expect(fault?.description.contains("lies outside the years") == true, "\(fault?.description ?? "")")
    }

    @Test("What recording takes is taken: a purchase without a store, and the key of a grant with two long ids")
    func widest() throws {
        let key = "manual:1024:" + String(repeating: "i", count: 1_024) + ":" + String(repeating: "e", count: 1_024)
        let line = try Self.read(
            Self.whole.replacing(#""APPLE_APP_STORE""#, with: #""""#).replacing(#""p1""#, with: "\"\(key)\""))
        #expect(line.event.purchase?.key == key && line.event.purchase?.store == "")
        #expect(throws: ImportFault.self) {
            _ = try Self.read(Self.whole.replacing(#""p1""#, with: "\"\(key + key)\""))
        }
    }

    @Test("Two spellings of one statement are one event; another end is another")
    func identity() throws {
        let one = try Self.read(
            """
            {"kind":"subscription","purchase":"p1","store":"S",\(Self.head),"holder":{"user_id":7},\
            "as_of":1767323045000,"until":1767323046000}
            """)
        let other = try Self.read(
            """
            { \(Self.head), "holder": {"user_id": "7", "anonymous_user_id": null}, "as_of": "2026-01-02T03:04:05Z",
              "until": "2026-01-02T04:04:06+01:00", "store": "S", "purchase": "p1", "kind": "subscription",
              "active": true, "links": [], "family": false }
            """)
        #expect(one == other)
        #expect(KeyHash.event(one.event) == KeyHash.event(other.event))
        let longer = ImportLine(
            scope: one.scope, holder: one.holder, asOf: one.asOf, until: nil, subject: one.subject)
        #expect(KeyHash.event(longer.event) != KeyHash.event(one.event))
    }

    @Test("What a line states: a gain with its end, a loss, a transaction that it does not name")
    func facts() throws {
        let start = #"{\#(Self.head),"holder":{"user_id":"ann"},"as_of":1000,"store":"S","purchase":"p","kind":"#
        let gain = try Self.read(start + #""subscription","until":5000}"#).event
        #expect(
            gain.facts == [
                .activate(.user("ann"), Timestamp(milliseconds: 1_000), until: Timestamp(milliseconds: 5_000))
            ])
        #expect(gain.transaction?.storeTransactionID == "posthouse.import")
        #expect(gain.transaction?.storeOriginalTransactionID == nil)
        #expect(gain.isImport && gain.type == "posthouse.import")
        let endless = try Self.read(start + #""one_time","until":null}"#).event
        #expect(endless.transaction == nil && endless.purchase?.kind == .oneTime)
        let loss = try Self.read(start + #""subscription","until":5000,"active":false}"#).event
        #expect(loss.facts.map(\.kind) == [.loss] && loss.transaction == nil)
    }

    @Test("A line without a purchase says who an anonymous id is; the first one is a login")
    func links() throws {
        let start = #"{\#(Self.head),"holder":{"anonymous_user_id":"a"},"as_of":1000,"until":"#
        let session = try Self.read(start + #"9000,"user_id":"ann"}"#)
        let until = Timestamp(milliseconds: 9_000)
        #expect(session.event.links == [HolderLink(anonymousID: "a", userID: "ann", until: until)])
        #expect(try Self.read(start + #"null,"user_id":null}"#).event.links.map(\.userID) == [nil])
        let first = try Self.read(start + #"null,"user_id":"ann","first":true}"#)
        #expect(first.event.change == .identify(install: "a", identity: "ann"))
        #expect(ImportLine.stored(first.canonical) == first)
    }

    @Test(
        "What would be guessed at is an error that says what",
        arguments: [
            (#""until":null,"#, "", "until is missing"),
            (#""kind":"subscription""#, #""kind":"lifetime""#, "kind must be"),
            (#""as_of":"2026-01-02T03:04:05.000Z""#, #""as_of":"yesterday""#, "as_of is not a time"),
            (#""as_of":"2026-01-02T03:04:05.000Z","#, "", "as_of is missing"),
            (#"{"user_id":"ann"}"#, #"{}"#, "exactly one of"),
            (#"{"user_id":"ann"}"#, #"{"user_id":"ann","anonymous_user_id":"b"}"#, "exactly one of"),
            (#"{"user_id":"ann"}"#, #""ann""#, "holder is missing"),
            (#""links":["device"]"#, #""links":[{}]"#, "links must be anonymous ids"),
            (#""ordinal":2"#, #""ordinal":0"#, "an ordinal from 1"),
            (#""product":"gold""#, #""expires":"gold""#, #"no member "expires""#),
            (#""product":"gold""#, #""product":{}"#, "neither a string nor an integer"),
            (#""purchase":"p1""#, #""purchase":"""#, "purchase is empty"),
            (#""posthouse.import","#, #""ACTIVATE","#, "event_name"),
        ])
    func faults(_ part: String, _ other: String, _ reason: String) throws {
        let range = try #require(Self.whole.firstRange(of: part))
        let damaged = Self.whole.replacingCharacters(range, with: other)
        let fault = #expect(throws: ImportFault.self) { _ = try Self.read(damaged) }
        #expect(fault?.description.contains(reason) == true, "\(fault?.description ?? "")")
    }

    private static let exported = """
        {"event_name":"posthouse.import",\(head),"holder":{"user_id":"ann"},"as_of":"1970-01-01T00:00:01.000Z",\
        "until":null,"store":"APPLE_APP_STORE","purchase":"p1","kind":"subscription",\
        "tokens":[{"token":"00112233445566778899aabbccddeeff","replaced":true}],\
        "holders":[{"holder":{"user_id":"ann"},"active":true,"as_of":"1970-01-01T00:00:01.000Z"}],\
        "history":[{"state":[2]},{"fact":[1000,"gain",9000,"-","user","ann"]},\
        {"register":[1000,"on","tenure","user","ann"]},{"told":[2,0,0,2,"","anon","a","user","ann"]},\
        {"later":["what","user","x"]}]}
        """

    @Test("A line of an export has the whole state, also what a newer version added, and states no facts beside it")
    func exported() throws {
        let line = try Self.read(Self.exported)
        #expect(Self.text(of: line) == Self.exported)
        let event = line.event
        #expect(event.facts.isEmpty && event.transaction == nil && event.tokens.map(\.isReplaced) == [true])
        let state = try PurchaseState(bytes: try #require(event.history?.state))
        #expect(state.facts.map(\.holder) == [.user("ann")] && state.announced.map(\.lastOrdinal) == [2])
        #expect(String(decoding: state.unknownLines, as: UTF8.self) == "later\twhat\tuser:x\n")
    }

    @Test(
        "Whatever ids are, a state is the same once it was written and read",
        arguments: ["ann", "user", "anon", "a\tb\nc\r", #"\"#, #"\t""#, "7", "-", "user:x", "\u{301}"])
    func histories(_ id: String) throws {
        var state = PurchaseState()
        for fact: Fact in [
            .activate(.user(id), seconds(0), until: seconds(9)), .activate(.anonymous(id), seconds(5)),
            Fact(kind: .gain, holder: .anonymous("own"), at: seconds(6), isNamed: false),
            Fact(kind: .naming, holder: .user(id), at: seconds(7)),
        ] {
            state = TransferResolution.resolve(state, fact, kind: .subscription, mayLackName: true).state
        }
        var stated = ImportLine.Stated(
            purchase: Purchase(
                key: "p", kind: .subscription, store: "S", product: nil, plan: nil, subscriptionID: nil),
            isActive: true)
        stated.history = StatedHistory(state: state.bytes, holders: [])
        let line = ImportLine(
            scope: Scope(source: "shop", app: "", environment: "PRODUCTION"), holder: .user(id), asOf: seconds(0),
            until: nil, subject: .purchase(stated))
        #expect(try ImportLine.read(line.canonical).line == line)
    }

    @Test(
        "A history that this version would not write is an error",
        arguments: [
            (#"{"state":[2]},"#, "", "history must begin with its version"), (#"[2]"#, "[4]", "version"),
            (#"1000,"gain""#, #""1e3","gain""#, "not a number"), (#""-","user","ann""#, #""-","ann""#, "not a holder"),
            (#"{"fact":[1000,"gain",9000,"-","user","ann"]},"#, #"7,"#, "history must be a list of objects"),
            (#""on","tenure""#, #""on\nfact","tenure""#, "control character"),
            ("[2,0,0,2", "[999999999,0,0,2", "more transfers"), ("[2,0,0,2", "[2,0,0,9999", "that nothing shows"),
            (#"00112233445566778899aabbccddeeff"#, "0011", "32 hex digits"),
            (#""active":true,"#, "", "holders must have"),
        ])
    func historyFaults(_ part: String, _ other: String, _ reason: String) throws {
        let range = try #require(Self.exported.firstRange(of: part))
        let damaged = Self.exported.replacingCharacters(range, with: other)
        let fault = #expect(throws: ImportFault.self) { _ = try Self.read(damaged) }
        #expect(fault?.description.contains(reason) == true, "\(fault?.description ?? "")")
    }

    @Test(
        "Lines of what a ledger keeps of holders are their own canonical form",
        arguments: [
            #""change":"login","to":{"user_id":"ann"}"#, #""change":"first","to":{"user_id":"ann"}"#,
            #""change":"install""#,
            #""change":"transfer","transaction_id":"t1","to":{"anonymous_user_id":"a"},"beside":{"user_id":"ann"}"#,
        ])
    func changes(_ members: String) throws {
        let text = """
            {"event_name":"posthouse.import",\(Self.head),"holder":{"anonymous_user_id":"a"},\
            "as_of":"2026-01-02T03:04:05.000Z","until":null,\(members)}
            """
        let line = try Self.read(text)
        #expect(Self.text(of: line) == text)
        #expect(line.event.change != nil && line.event.links.isEmpty && line.event.purchase == nil)
        #expect(ImportLine.stored(line.event.body) == line)
    }

    @Test("A webhook's body is no line")
    func webhook() {
        #expect(ImportLine.stored(Array(#"{"event_name":"ACTIVATE"}"#.utf8)) == nil)
        #expect(ImportLine.stored(Array(Self.whole.dropFirst().utf8)) == nil)
        #expect(ImportLine.stored([]) == nil)
    }

    @Test(
        "In quarantine, a body is a line only with the reason of one that was read, and under the source that it names",
        arguments: [
            ("shop", LoadedPurchases.unreadablePrefix(key: "p1") + " (line 1)", true),
            ("other", LoadedPurchases.unreadablePrefix(key: "p1") + " (line 1)", false),
            ("shop", "event_created_at is missing", false),
        ])
    func setAside(_ source: String, _ reason: String, isLine: Bool) throws {
        let row = Quarantine.Row(
            id: 1, source: source, reason: reason, receivedAt: Timestamp(milliseconds: 0), bytes: 1)
        let expected = try isLine ? Self.read(Self.whole) : nil
        #expect(ImportLine.setAside(row, Array(Self.whole.utf8)) == expected)
    }
}

extension String {
    fileprivate func replacingCharacters(_ range: Range<Index>, with other: String) -> String {
        String(self[..<range.lowerBound]) + other + String(self[range.upperBound...])
    }
}
