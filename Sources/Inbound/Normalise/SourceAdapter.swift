package import Vocabulary

/// What is asked of a vendor's API about one event. One kind of source has such an API so far.
package typealias Enrichment = GooglePlayEnrichment

/// The reading of one kind of source: files of its name here, and its signature in Verify. Its settings are in
/// `KindSettings` and checked in CheckKindSettings; nothing else in the tree depends on a vendor.
package protocol SourceAdapter: SourceShape {
    /// Every event name that the vendor documents, for `posthouse send`. Other names are passed on, too.
    var knownEventNames: [String] { get }

    /// The header with a secret, and the signature, by which the vendor's webhooks can prove themselves; nil: none.
    var token: StaticToken? { get }
    var signature: KeyedSignature? { get }

    /// Whether the webhook comes from `source`, decided on the connection's event loop without waiting.
    ///
    /// - Parameters:
    ///   - header: as for `normalise`.
    ///   - now: this machine's wall clock.
    func authenticate(header: (String) -> String?, body: [UInt8], source: Source, now: Timestamp) -> Authenticity

    /// The event stated by an authentic body, in the vocabulary that all sources share. An error outside the envelope
    /// never costs the event: a field of another type than documented counts as absent.
    ///
    /// - Parameter header: looks up a header field by its name, ignoring case.
    func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event

    /// Name of the header with the id of an event whose body has none; nil: there is none. `normalise` reads no other,
    /// so it is kept with a webhook that waits in the spool or in quarantine. It is no credential or signature.
    var idHeader: String? { get }

    /// What a sealed body says, in clear, for people, with what the vendor's API answered about it: one JSON object.
    /// Nil where it cannot be opened, and for kinds whose bodies are not sealed. It is not checked whether the vendor
    /// said it.
    func decoded(_ body: [UInt8], answer: [UInt8]?) -> [UInt8]?

    /// Throws for an authentic webhook that is none of the source's, to be quarantined. It may be none any more by the
    /// time when it is read again, so `normalise` does not ask.
    func requireOwn(_ body: [UInt8], of source: Source) throws(Unreadable)

    /// What is looked up, and asked of the vendor's API, before the event of a body is recorded; nil: nothing. The
    /// error is that of `normalise` or `requireOwn`.
    func enrichment(of body: [UInt8], from source: Source) throws(Unreadable) -> Enrichment?

    /// The event together with what the vendor's API answered about it.
    ///
    /// - Parameter answer: the document that `enrichment` led to, or `Event.answer`; nil: there is none.
    func normalise(
        _ body: [UInt8], answer: [UInt8]?, header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event

    /// The JSON answer to a test request of the vendor's console; nil for everything else. A test request is no event
    /// and nothing of it is stored. Called only for authentic bodies.
    func handshake(_ body: [UInt8]) -> [UInt8]?

    /// A realistic body, as the vendor would send it, for `posthouse send`.
    func sample(_ request: SampleRequest) -> [UInt8]

    /// The same, signed with certificates, for kinds that prove themselves so; for others `sample`.
    ///
    /// - Parameter bundleID: the app; nil: that of the vendor's examples.
    func signedSample(
        _ request: SampleRequest, with chain: AppleChain, bundleID: String?
    ) throws(AppleChain.Failure) -> [UInt8]

    /// The events whose sample names both sides of a transfer.
    var sampleTransfers: [SampleTransfer] { get }

    /// How else a sample moves a purchase, or what its counterpart is: one sentence for the help of `posthouse send`.
    var sampleTransferNote: String { get }
}

extension SourceAdapter {
    package var token: StaticToken? { nil }
    package var signature: KeyedSignature? { nil }

    package var idHeader: String? { nil }
    package func decoded(_ body: [UInt8], answer: [UInt8]?) -> [UInt8]? { nil }
    package func requireOwn(_ body: [UInt8], of source: Source) throws(Unreadable) {}
    package func enrichment(of body: [UInt8], from source: Source) throws(Unreadable) -> Enrichment? { nil }

    package func normalise(
        _ body: [UInt8], answer: [UInt8]?, header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event { try normalise(body, header: header, from: source) }

    /// The id that a request's headers give its event, for a body that cannot be read yet; nil: they give none.
    package func eventID(header: (String) -> String?) -> String? {
        // A longer one can never be read.
        guard let idHeader, let id = header(idHeader), !id.isEmpty, id.utf8.count <= Limits.identifierBytesMax
        else { return nil }
        return id
    }

    package func handshake(_ body: [UInt8]) -> [UInt8]? { nil }

    package func signedSample(
        _ request: SampleRequest, with chain: AppleChain, bundleID: String?
    ) throws(AppleChain.Failure) -> [UInt8] { sample(request) }

    package var sampleTransfers: [SampleTransfer] { [] }

    package var sampleTransferNote: String {
        "Another holder on the same --purchase gets it; who gives is not named."
    }

    /// The transfer that a body states, as the relay reads it; nil: none, or the body cannot be read.
    ///
    /// - Parameter header: as for `normalise`.
    package func statedTransfer(
        in body: [UInt8], header: (String) -> String?, kind: SourceKind
    ) -> StatedTransfer? {
        let source = Source(
            name: "", kind: kind, authentication: .none, secrets: [], app: nil, defaultEnvironment: nil,
            freshness: nil, merges: kind.traits.merges)
        return (try? normalise(body, header: header, from: source)).flatMap { StatedTransfer($0) }
    }

    /// By the source's `auth`: the kind's token or signature.
    package func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, now: Timestamp
    ) -> Authenticity {
        let proven: Authenticity? =
            switch source.authentication {
            case .none: .authentic
            case .token: token?.authenticate(header: header, source: source)
            case .signature: signature?.authenticate(header: header, body: body, source: source, now: now)
            }
        return proven ?? .refused(.unsupportedAuthentication)
    }

    package func signatureHeaders(
        body: [UInt8], unixSeconds: Int64, authentication: Source.Authentication, secret: Secret
    ) -> [(name: String, value: String)] {
        switch authentication {
        case .none: []
        case .token: token.map { [$0.header(of: secret)] } ?? []
        case .signature: signature?.headers(body: body, unixSeconds: unixSeconds, secret: secret) ?? []
        }
    }
}

/// An authentic body without a readable envelope; it is quarantined byte for byte.
package struct Unreadable: Error, Hashable, Sendable, CustomStringConvertible {
    /// The error and its place, for a person; never quotes the body.
    package let reason: String

    package init(reason: String) { self.reason = reason }

    package var description: String { reason }
}

/// What a sample states. The rest of it is invented.
package struct SampleRequest: Sendable {
    package var eventName: String
    package var holder: Holder
    /// The other side of a transfer, for events that name one.
    package var counterpart: Holder?
    package var storeTransactionID: String
    /// The vendor's own id of the purchase; its prefix shows whether it is a subscription.
    package var purchaseID: String
    package var occurredAt: Timestamp
    /// Absent: the body has none, as in older versions of the vendor's API.
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

/// Makes the adapter of each `SourceKind`.
package enum SourceAdapters {
    /// A new adapter. A source keeps its own for its life, because an adapter may remember what it has verified.
    ///
    /// - Parameter keys: of the tokens by which a source proves itself; left out, no such token can be checked.
    package static func adapter(
        for kind: SourceKind, keys: @escaping JSONWebKeyLookup = { _ in .unverifiable }
    ) -> any SourceAdapter {
        switch kind {
        case .purchasely: Purchasely()
        case .qonversion: Qonversion()
        case .apphud: Apphud()
        case .revenuecat: RevenueCat()
        case .adapty: Adapty()
        case .sessions: Sessions()
        case .apple: Apple()
        case .googlePlay: GooglePlay(keys: keys)
        case .stripe: Stripe()
        }
    }
}
