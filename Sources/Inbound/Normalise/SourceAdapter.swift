package import Vocabulary

/// All that the relay knows of one kind of source. One kind is one file (or a few of one name) here and its signature
/// in Verify; nothing else in the tree knows a vendor.
package protocol SourceAdapter: SourceShape {
    /// Every event name that the vendor documents, for `posthouse send`. Others are passed on just so.
    var knownEventNames: [String] { get }

    /// Whether the webhook comes from `source`.
    ///
    /// - Parameter header: looks a header field up by its name, without regard to case.
    func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, now: Timestamp
    ) -> Authenticity

    /// The event that an authentic body states, in the vocabulary that all sources share. What is wrong outside the
    /// envelope never costs the event: a field of another type than documented counts as absent.
    ///
    /// - Parameter header: as for `authenticate`.
    func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event

    /// What a test request of the vendor's console must be answered with, as JSON; nil for everything else. It is no
    /// event and nothing of it is stored. Called for authentic bodies only.
    func handshake(_ body: [UInt8]) -> [UInt8]?

    /// A realistic body, as the vendor would send it, for `posthouse send`.
    func sample(_ request: SampleRequest) -> [UInt8]
}

extension SourceAdapter {
    package func handshake(_ body: [UInt8]) -> [UInt8]? { nil }
}

/// An authentic body without a readable envelope: it is quarantined byte for byte.
package struct Unreadable: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong and where, for a person; never quotes the body.
    package let reason: String

    package init(reason: String) { self.reason = reason }

    package var description: String { reason }
}

/// What a sample is to state. The rest of it is made up.
package struct SampleRequest: Sendable {
    package var eventName: String
    package var holder: Holder
    /// The other side of a transfer; stated by the events that name one.
    package var counterpart: Holder?
    package var storeTransactionID: String
    /// The vendor's own id of the purchase; its prefix says whether it is a subscription.
    package var purchaseID: String
    package var occurredAt: Timestamp
    /// Absent: the body has none, as older versions of the vendor's API.
    package var eventID: String?
    package var environment: String

    package init(
        eventName: String, holder: Holder, counterpart: Holder? = nil, storeTransactionID: String,
        purchaseID: String, occurredAt: Timestamp, eventID: String? = nil, environment: String = "PRODUCTION"
    ) {
        self.eventName = eventName
        self.holder = holder
        self.counterpart = counterpart
        self.storeTransactionID = storeTransactionID
        self.purchaseID = purchaseID
        self.occurredAt = occurredAt
        self.eventID = eventID
        self.environment = environment
    }
}

/// The one place that knows which kinds there are.
package enum SourceAdapters {
    package static func adapter(for kind: SourceKind) -> any SourceAdapter {
        switch kind {
        case .purchasely: Purchasely()
        case .qonversion: Qonversion()
        case .apphud: Apphud()
        case .revenuecat: RevenueCat()
        case .adapty: Adapty()
        case .sessions: Sessions()
        }
    }
}
