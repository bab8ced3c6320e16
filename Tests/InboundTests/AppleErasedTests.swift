import JSONText
import Testing
import Vocabulary

@testable import Inbound
@testable import Ledger

/// What `posthouse erase` leaves of another person's notification. Oracle: the notification as it was before.
@Suite("Notifications from which somebody was erased")
struct AppleErasedTests {
    /// The account token of the renewal info: not the holder's.
    private static let other = "ffffffff-0000-4000-8000-00000000000f"

    private static func erased(_ id: String, from body: [UInt8]) -> SealedText.Rewritten? {
        ErasedID.spellings(of: .user(id)).map { ErasedID(holder: $0, standIn: .anonymous("x")) }.redaction(of: body)
    }

    @Test("It states the same, names the person no more, and is not authentic", arguments: [false, true])
    func readable(isCapital: Bool) throws {
        let token = isCapital ? Self.other.uppercased() : Self.other
        let decoded = AppleFixtures.notification("DID_RENEW", renewal: [("appAccountToken", "\"\(token)\"")])
        let body = try AppleFixtures.seal(decoded)
        let rewritten = try #require(Self.erased(Self.other, from: body))
        #expect(rewritten.lostSignature && rewritten.bytes.count < body.count)
        let before = try Apple().normalise(body, header: { _ in nil }, from: appleSource())
        let after = try Apple().normalise(rewritten.bytes, header: { _ in nil }, from: appleSource())
        #expect(after.type == before.type && after.name == before.name && after.vendorEventID == before.vendorEventID)
        #expect(after.holder == before.holder && after.facts == before.facts && after.scope == before.scope)
        #expect(after.purchase == before.purchase && after.transaction == before.transaction)
        let said = String(decoding: try #require(before.decoded), as: UTF8.self)
        #expect(said.contains(token))
        #expect(
            String(decoding: try #require(after.decoded), as: UTF8.self)
                == said.replacing("\"\(token)\"", with: "\"erased\""))
        let verdict = Apple().authenticate(
            header: { _ in nil }, body: rewritten.bytes, source: appleSource(), now: Timestamp(milliseconds: 0))
        #expect(verdict == .refused(.unsupportedAlgorithm))
        #expect(Self.erased(Self.other, from: rewritten.bytes) == nil)
    }

    @Test("Whoever is not named takes nothing along")
    func others() throws {
        let body = try AppleFixtures.seal(AppleFixtures.notification("DID_RENEW"))
        for id in ["00000000-0000-4000-8000-000000000000", "erased", "Production.", "300000000000000"] {
            #expect(Self.erased(id, from: body) == nil, "\(id)")
        }
    }
}
