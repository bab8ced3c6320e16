/// The kinds of source that this build knows. One kind = one file in Inbound/Normalise.
package enum SourceKind: String, Sendable, CaseIterable {
    case purchasely
    case qonversion
    case apphud
    case revenuecat
    case adapty
    case sessions

    /// What `send` speaks as unless it is told.
    package static let usual = SourceKind.purchasely

    /// What the configuration may say of a source of this kind.
    package var traits: SourceTraits {
        switch self {
        case .purchasely: SourceTraits(authentications: [.signature, .none], namesApp: true)
        case .qonversion:
            SourceTraits(
                authentications: [.token, .none], ownerships: [.installAndIdentity, .exclusive], restores: true,
                renamesEvents: true, statesChanges: true)
        case .apphud: SourceTraits(authentications: [.token, .none], namesApp: true)
        case .revenuecat:
            SourceTraits(authentications: [.token, .signature, .none], statesChanges: true, namesApp: true)
        case .adapty: SourceTraits(authentications: [.token, .none], renamesEvents: true)
        case .sessions:
            SourceTraits(authentications: [.signature, .none], merges: true, statesChanges: true, namesApp: true)
        }
    }
}

/// What the configuration may say of a source, by its kind.
package struct SourceTraits: Sendable {
    /// How such a source can prove who it is, the default first. `none` is never the default.
    package let authentications: [Source.Authentication]
    /// Policies of ownership, the default first.
    package let ownerships: [Ownership]
    /// Whether the key `restore` means something.
    package let restores: Bool
    /// Whether the key `merge` means something.
    package let merges: Bool
    /// Whether the key `event_names` means something: the vendor lets its customers name the events.
    package let renamesEvents: Bool
    /// Whether its events can concern a holder as a whole. What the app's backend states always can.
    package let statesChanges: Bool
    /// Whether its events can name the app that they are about, which is part of every key.
    package let namesApp: Bool

    init(
        authentications: [Source.Authentication], ownerships: [Ownership] = [.exclusive], restores: Bool = false,
        merges: Bool = false, renamesEvents: Bool = false, statesChanges: Bool = false,
        namesApp: Bool = false
    ) {
        self.authentications = authentications
        self.ownerships = ownerships
        self.restores = restores
        self.merges = merges
        self.renamesEvents = renamesEvents
        self.statesChanges = statesChanges
        self.namesApp = namesApp
    }
}

/// A configured sender of webhooks: one `[[source]]`, checked.
package struct Source: Sendable, Hashable {
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
    /// What the configuration says of events that name no environment; nil: nothing.
    package let environment: String?
    /// Webhooks whose signed timestamp is further than this from now are refused; nil: off, for retries may be old.
    package let freshness: Duration?
    package let ownership: Ownership
    /// What a restore does where it does not say.
    package let restore: RestoreStrategy
    /// Whether a login moves what the anonymous holder holds.
    package let merges: Bool
    /// Names that the vendor was configured to send, each with the vendor's default name for it.
    package let renamedEvents: [String: String]

    package init(
        name: String, kind: SourceKind, authentication: Authentication, secrets: [Secret], app: String?,
        defaultEnvironment: String?, freshness: Duration?, ownership: Ownership? = nil,
        restore: RestoreStrategy = .transfer, merges: Bool = false, renamedEvents: [String: String] = [:]
    ) {
        self.name = name
        self.kind = kind
        self.authentication = authentication
        self.secrets = secrets
        self.app = app
        self.environment = defaultEnvironment
        self.freshness = freshness
        self.ownership = ownership ?? kind.traits.ownerships.first ?? .exclusive
        self.restore = restore
        self.merges = merges
        self.renamedEvents = renamedEvents
    }

    /// Whether a login that the app's backend states moves what the anonymous holder holds: always, unless the kind
    /// leaves that to the key `merge`.
    package var loginMoves: Bool { merges || !kind.traits.merges }

    /// Of events that name none where the configuration does not say it either.
    package static let usualEnvironment = "PRODUCTION"

    package var defaultEnvironment: String { environment ?? Self.usualEnvironment }
}

/// A derived transfer message, as the source itself would have sent it.
package struct DerivedTransfer: Sendable {
    /// `SUBSCRIPTION_TRANSFERRED`, `SUBSCRIPTION_RECEIVED` or their ONE_TIME_PURCHASE_ twins.
    package let type: String
    package let from: Holder
    package let to: Holder
    /// The derived event's own id.
    package let eventID: String
    /// What passed, where the original does not name it: a login, a transfer of all that somebody holds.
    package let unnamedPurchase: Purchase?
    /// The newest transaction of that.
    package let unnamedTransaction: Transaction?

    package init(
        type: String, from: Holder, to: Holder, eventID: String, unnamedPurchase: Purchase? = nil,
        unnamedTransaction: Transaction? = nil
    ) {
        self.type = type
        self.from = from
        self.to = to
        self.eventID = eventID
        self.unnamedPurchase = unnamedPurchase
        self.unnamedTransaction = unnamedTransaction
    }
}

/// What the rest of the tree asks of a kind of source without knowing which it is.
package protocol SourceShape: Sendable {
    /// The original object with event name, event id, holder and `transferred_*` set, as the vendor would have sent
    /// it, for `format = "source"`. Everything else in it stays as it came.
    func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8]

    /// The headers with which this source proves who it is at `unixSeconds`, for `format = "source"` and for `send`.
    func signatureHeaders(
        body: [UInt8], unixSeconds: Int64, authentication: Source.Authentication, secret: Secret
    ) -> [(name: String, value: String)]
}
