import Testing
import Vocabulary

@Suite("Events")
struct EventTests {
    private static let time = Timestamp(milliseconds: 1)
    private static let bare = Event(
        scope: Scope(source: "a", app: "", environment: ""), vendorEventID: nil, name: "a", type: "a", holder: nil,
        occurredAt: Timestamp(milliseconds: 0), purchase: nil, transaction: nil, body: [])
    private static let full = Event(
        scope: Scope(source: "b", app: "", environment: ""), vendorEventID: "b", name: "b", type: "b",
        holder: .user("b"), occurredAt: time, isTimeRepeated: true, asOf: Timestamp(milliseconds: 2),
        yieldsTransaction: true, yieldsProduct: true, isIDOfSource: true,
        purchase: Purchase(key: "b", kind: .oneTime, store: "b", product: nil, plan: nil, subscriptionID: nil),
        transaction: Transaction(
            storeTransactionID: "b", storeOriginalTransactionID: nil, purchasedAt: nil, effectiveNextRenewalAt: nil,
            offerType: nil, status: nil),
        money: [1], mayConvertTrial: true, typeIfKnown: "b", typeIfPaused: "b",
        facts: [Fact(kind: .gain, holder: .user("b"), at: time)], change: .register(install: "b"),
        links: [HolderLink(anonymousID: "b", userID: nil)], decoded: [1], answer: [1],
        tokens: [KnownToken(token: Identifier(high: 0, low: 1), first: "b", environment: nil, isReplaced: false)],
        history: StatedHistory(state: [1], holders: []), repeated: [1], isOfBackend: true, presumedAsOf: time,
        admittedUntil: .now, body: [1])

    private static func fields(_ event: Event) -> [String] {
        Mirror(reflecting: event).children.map { "\($0.label ?? "") \($0.value)" }
    }

    @Test("A copy of an event keeps every field but those that it replaces")
    func copy() {
        let (bare, full) = (Self.fields(Self.bare), Self.fields(Self.full))
        #expect(zip(bare, full).allSatisfy { $0 != $1 } && bare.count == full.count, "a field is left out here")
        let same = Self.full.replacing(
            purchase: Self.full.purchase, transaction: Self.full.transaction, facts: Self.full.facts)
        #expect(Self.fields(same) == full)
        let empty = Self.full.replacing(purchase: nil, transaction: nil, facts: [])
        #expect(zip(Self.fields(empty), full).count { $0 != $1 } == 3)
        #expect(empty.purchase == nil && empty.transaction == nil && empty.facts.isEmpty)
        let limited = Self.bare.admitted(until: .now)
        #expect(limited.admittedUntil != nil && zip(Self.fields(limited), bare).count { $0 != $1 } == 1)
    }
}
