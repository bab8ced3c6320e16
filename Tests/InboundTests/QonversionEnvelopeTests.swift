import Testing
import Vocabulary

@testable import Inbound

/// Holders, times and authentication. Oracle: Qonversion's page "Webhooks" and Domain.md, "Ownership".
@Suite struct QonversionEnvelopeTests {
    static let install = Holder.anonymous("i1")
    static let identity = Holder.user("u1")

    @Test(
        arguments: [
            (#""i1""#, #""""#, .installAndIdentity, install, [install]),
            (#""i1""#, "null", .exclusive, install, [install]),
            (#""i1""#, #""u1""#, .installAndIdentity, install, [install, identity]),
            (#""i1""#, #""u1""#, .exclusive, identity, [identity]),
            (#""""#, #""u1""#, .installAndIdentity, identity, [identity]),
        ] as [(String, String, Ownership, Holder, [Holder])])
    func thePolicySaysWhoHolds(
        _ user: String, _ identity: String, _ ownership: Ownership, _ holder: Holder, _ holders: [Holder]
    ) throws {
        let event = try event(
            QonversionFixtures.holding(install: user, identity: identity),
            from: QonversionFixtures.source(ownership: ownership))
        #expect(event.holder == holder)
        #expect(event.facts.map(\.holder) == holders)
        #expect(event.facts.allSatisfy { $0.kind == .gain })
        let isLoggedIn = user == #""i1""# && identity == #""u1""#
        #expect(event.links == (isLoggedIn ? [HolderLink(anonymousID: "i1", userID: "u1")] : []))
    }

    /// Where the identity alone holds, the purchase may have been the install's before the login.
    @Test(
        arguments: [
            (.exclusive, [identity, install], [false, true]),
            (.installAndIdentity, [install, identity], [false, false]),
        ] as [(Ownership, [Holder], [Bool])])
    func aLossIsAlsoOneOfTheInstall(_ ownership: Ownership, _ holders: [Holder], _ endsAccessOnly: [Bool]) throws {
        let body = BodyEdit.edit(
            QonversionFixtures.named("in_app_refunded"), [("user_id", "\"i1\""), ("identity_id", "\"u1\"")])
        let loss = try event(body, from: QonversionFixtures.source(ownership: ownership))
        #expect(loss.facts.map(\.holder) == holders)
        #expect(loss.facts.map(\.endsAccessOnly) == endsAccessOnly)
        #expect(loss.facts.allSatisfy { $0.kind == .loss && $0.isRevoked })
    }

    @Test func aCustomUserIdentifiesNobody() throws {
        let body = BodyEdit.edit(QonversionFixtures.documented, [("custom_user_id", "\"label\"")])
        let event = try event(body, from: QonversionFixtures.source())
        #expect(event.links.isEmpty)
        #expect(event.facts.count == 1)
    }

    @Test(arguments: [(nil, nil), ("\"\"", "\"\""), ("{}", "\"u1\""), ("\"i1\"", "[1]")] as [(String?, String?)])
    func quarantinesWithoutAHolder(_ user: String?, _ identity: String?) {
        let body = QonversionFixtures.holding(install: user, identity: identity)
        let reason = unreadable(body, from: QonversionFixtures.source())
        #expect(reason?.contains("user_id") == true || reason?.contains("identity_id") == true)
    }

    @Test(
        arguments: [
            ("1700000000", "1", 1_700_000_000_000), (nil, "1700000000", 1_700_000_000_000),
            ("null", "1700000000", 1_700_000_000_000), ("1700000000123", nil, 1_700_000_000_123),
            ("100000000000", nil, 100_000_000_000_000), ("100000000001", nil, 100_000_000_001), ("0", nil, 0),
            ("-62167219201", nil, nil), ("\"soon\"", "1700000000", nil), (nil, nil, nil), ("1.5", nil, nil),
        ] as [(String?, String?, Int64?)])
    func theEventTimeIsCreatedAtElseTime(_ created: String?, _ time: String?, _ milliseconds: Int64?) throws {
        let body = BodyEdit.edit(QonversionFixtures.documented, [("created_at", created), ("time", time)])
        if let milliseconds {
            #expect(try event(body, from: QonversionFixtures.source()).occurredAt.milliseconds == milliseconds)
        } else {
            #expect(unreadable(body, from: QonversionFixtures.source())?.contains("created_at") == true)
        }
    }

    @Test(arguments: ["user_id", "identity_id", "event_name", "product_id", "platform", "environment"])
    func aTooLongIdentifierIsQuarantined(_ key: String) {
        let longest = String(repeating: "x", count: Limits.identifierBytesMax)
        let source = QonversionFixtures.source()
        let base = QonversionFixtures.documented
        #expect(unreadable(BodyEdit.edit(base, [(key, "\"\(longest)\"")]), from: source) == nil)
        let reason = unreadable(BodyEdit.edit(base, [(key, "\"\(longest)x\"")]), from: source)
        #expect(reason == "\(key) is longer than 1024 bytes")
    }

    // MARK: Authentication

    private static func judge(
        _ value: String?, _ source: Source, name: String = "Authorization"
    ) -> Authenticity {
        SourceAdapters.adapter(for: .qonversion).authenticate(
            header: { $0 == name ? value : nil }, body: [], source: source, now: Timestamp(milliseconds: 0))
    }

    /// The vendor sends the token as it is behind `Basic`: the secret may be either spelling.
    @Test(
        arguments: [
            ("abc", "Basic abc", true), ("abc", "abc", true), ("Basic abc", "Basic abc", true),
            ("Basic abc", "abc", false), ("abc", "basic abc", false), ("abc", "Bearer abc", false),
            ("abc", "Basic  abc", false), ("abc", "Basic ab", false), ("abc", "Basic abcd", false),
            ("abc", "Basic ", false), ("abc", "Basic", false), ("é", "Basic é", true),
        ] as [(String, String, Bool)])
    func theTokenIsTakenVerbatim(_ secret: String, _ value: String, _ isAuthentic: Bool) {
        let verdict = Self.judge(value, QonversionFixtures.source(secrets: ["other", secret]))
        #expect(verdict == (isAuthentic ? .authentic : .refused(.wrongToken)))
    }

    @Test func withoutATokenItIsRefused() {
        let source = QonversionFixtures.source()
        #expect(Self.judge(nil, source) == .refused(.missingToken))
        #expect(Self.judge("", source) == .refused(.missingToken))
        #expect(Self.judge("abc", source, name: "X-Token") == .refused(.missingToken))
        #expect(Self.judge("abc", QonversionFixtures.source(secrets: [])) == .refused(.wrongToken))
        let open = QonversionFixtures.source(authentication: .none, secrets: [])
        #expect(Self.judge(nil, open) == .authentic)
        let signed = QonversionFixtures.source(authentication: .signature)
        #expect(Self.judge("abc", signed) == .refused(.unsupportedAuthentication))
    }

    // MARK: Mutations

    @Test(arguments: 1...4 as ClosedRange<UInt64>) func endsOnAnyMutation(_ seed: UInt64) {
        let named = QonversionTests.rows.map { QonversionFixtures.named($0.name) }
        var mutations = Mutations(of: named + [QonversionFixtures.documented, QonversionFixtures.newer], seed: seed)
        let sources = [Ownership.exclusive, .installAndIdentity].map { QonversionFixtures.source(ownership: $0) }
        var read = 0
        for turn in 0..<2_500 {
            let bytes = mutations.next()
            do {
                let event = try Qonversion().normalise(bytes, header: { _ in nil }, from: sources[turn % 2])
                read += 1
                #expect(event.body == bytes)
                #expect(!event.name.isEmpty && !event.type.isEmpty && event.holder?.id.isEmpty == false)
                #expect(Timestamp.writable.contains(event.occurredAt))
                #expect(event.facts.isEmpty || event.purchase != nil)
                #expect(event.facts.allSatisfy { !$0.holder.id.isEmpty })
            } catch {
                #expect(!error.reason.isEmpty && !error.reason.contains("example.com"))
            }
        }
        #expect(read > 50, "the mutations hardly leave anything readable")
    }
}
