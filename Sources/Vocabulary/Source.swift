/// The kinds of source that this build knows. One kind = one file in Inbound/Normalise.
package enum SourceKind: String, Sendable, CaseIterable {
    case purchasely

    /// What `send` speaks as unless it is told.
    package static let usual = SourceKind.purchasely
}

/// A configured sender of webhooks: one `[[source]]`, checked.
package struct Source: Sendable {
    /// How a source proves who it is.
    package enum Authentication: String, Sendable, CaseIterable {
        case signature
        case token
        case none
    }

    /// Also the last part of `POST /ingest/NAME`.
    package let name: String
    package let kind: SourceKind
    package let authentication: Authentication
    /// Each is tried, so that one can be rotated while both hold. The first also signs `format = "source"` deliveries.
    package let secrets: [Secret]
    /// Replaces the vendor's bundle id in every identity.
    package let app: String?
    /// For events that name no environment.
    package let defaultEnvironment: String
    /// Webhooks whose signed timestamp is further than this from now are refused; nil: off, for retries may be old.
    package let freshness: Duration?

    package init(
        name: String, kind: SourceKind, authentication: Authentication, secrets: [Secret], app: String?,
        defaultEnvironment: String, freshness: Duration?
    ) {
        self.name = name
        self.kind = kind
        self.authentication = authentication
        self.secrets = secrets
        self.app = app
        self.defaultEnvironment = defaultEnvironment
        self.freshness = freshness
    }
}

/// A derived transfer message, as the source itself would have sent it.
package struct DerivedTransfer: Sendable {
    /// `SUBSCRIPTION_TRANSFERRED`, `SUBSCRIPTION_RECEIVED` or their ONE_TIME_PURCHASE_ twins.
    package let type: String
    package let from: Holder
    package let to: Holder
    /// The derived event's own id.
    package let eventID: String

    package init(type: String, from: Holder, to: Holder, eventID: String) {
        self.type = type
        self.from = from
        self.to = to
        self.eventID = eventID
    }
}

/// What the rest of the tree asks of a kind of source without knowing which it is.
package protocol SourceShape: Sendable {
    /// The original object with event name, event id, holder and `transferred_*` set, as the vendor would have sent
    /// it, for `format = "source"`. Everything else in it stays as it came.
    func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8]

    /// The headers with which this source signs `body` at `unixSeconds`, for `format = "source"` and for `send`.
    func signatureHeaders(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)]
}
