/// The kinds of source that this build supports. Each kind has files of its name in Inbound/Normalise.
package enum SourceKind: String, Sendable, CaseIterable {
    case purchasely
    case qonversion
    case apphud
    case revenuecat
    case adapty
    case sessions
    case apple
    case googlePlay = "google-play"
    case stripe

    /// The kind that `send` uses by default.
    package static let usual = SourceKind.purchasely

    /// The settings that the configuration accepts for a source of this kind.
    package var traits: SourceTraits {
        switch self {
        case .purchasely: SourceTraits(authentications: [.signature, .none], namesApp: true)
        case .qonversion:
            SourceTraits(
                authentications: [.token, .none], ownerships: [.installAndIdentity, .exclusive], restores: true,
                renamesEvents: true)
        case .apphud: SourceTraits(authentications: [.token, .none], namesApp: true, sendsOnce: true)
        case .revenuecat:
            SourceTraits(authentications: [.token, .signature, .none], namesApp: true)
        case .adapty: SourceTraits(authentications: [.token, .none], renamesEvents: true)
        case .sessions:
            SourceTraits(authentications: [.signature, .none], merges: true, namesApp: true)
        case .apple:
            SourceTraits(
                authentications: [.signature], namesApp: true, hasSecrets: false, signsWithCertificates: true,
                mayLackName: true)
        case .googlePlay:
            SourceTraits(
                authentications: [.token], namesApp: true, hasSecrets: false, leeway: .lasting(3 * 86_400_000),
                mayLackName: true, namesTokens: true)
        case .stripe:
            SourceTraits(
                authentications: [.signature, .none], namesApp: true, freshness: .seconds(300), mayLackName: true)
        }
    }
}

/// The settings that the configuration accepts for a source, by its kind.
package struct SourceTraits: Sendable {
    /// Authentication methods of such a source, the default first. `none` is never the default.
    package let authentications: [Source.Authentication]
    /// Policies of ownership, the default first.
    package var ownerships = [Ownership.exclusive]
    /// Whether the key `restore` is allowed.
    package var restores = false
    /// Whether the key `merge` is allowed.
    package var merges = false
    /// Whether the key `event_names` is allowed, because the vendor lets its customers name the events.
    package var renamesEvents = false
    /// Whether its events can name their app, which is part of every key.
    package var namesApp = false
    /// Whether it proves itself by a secret that both sides have.
    package var hasSecrets = true
    /// Whether its signatures come with the certificates of their key.
    package var signsWithCertificates = false
    /// How old a signature may be where the source does not say so; nil: of any age, because the vendor repeats what it
    /// signed once.
    package var freshness: Duration?
    /// Where the source does not say it. Google's store keeps what could not be charged open, and says nothing of it,
    /// for up to two days ("silent grace period", developer.android.com/google/play/billing/lifecycle/subscriptions).
    package var leeway = Leeway.usual
    /// Whether its events may name no account, because a store itself sends them (Domain.md, "Nameless facts").
    package var mayLackName = false
    /// Whether its events name a purchase by tokens that follow one another: the ledger says which is whose.
    package var namesTokens = false
    /// Whether the vendor sends each webhook once, whatever the answer: one that is refused is lost.
    package var sendsOnce = false
}

/// Whether a source's webhooks that the ledger cannot take in time are kept on the daemon's disk and answered 200.
package enum Spooling: Sendable, Hashable {
    case off
    /// Unless the disk has no place for them, as in a container without a volume: the default of kinds that send once.
    case whereItCan
    /// The operator asked for it: a daemon that cannot does not start.
    case required
}

/// A configured sender of webhooks: one `[[source]]`, checked.
package struct Source: Sendable, Hashable {
    /// How a source authenticates.
    package enum Authentication: String, Sendable, CaseIterable {
        case signature
        case token
        case none
    }

    /// Also the last part of `POST /ingest/NAME`.
    package let name: String
    package let kind: SourceKind
    package let authentication: Authentication
    /// Each is tried, so that one can be rotated while both are valid. The first also signs `format = "source"`
    /// deliveries.
    package let secrets: [Secret]
    /// Replaces the vendor's bundle id in every key.
    package let app: String?
    /// The configured environment of events that name none; nil: not configured.
    package let environment: String?
    /// Webhooks whose signed timestamp differs from now by more than this are rejected; nil: no check, because retries
    /// may be old.
    package let freshness: Duration?
    /// How long access goes on past its stated end while no webhook says what became of the purchase.
    package let leeway: Leeway
    package let ownership: Ownership
    /// What a restore does if it does not say so itself.
    package let restore: RestoreStrategy
    /// Whether a login moves the purchases of the anonymous holder.
    package let merges: Bool
    /// Event names configured at the vendor, each with the vendor's default name for it.
    package let renamedEvents: [String: String]
    package let settings: KindSettings
    package let spooling: Spooling

    package init(
        name: String, kind: SourceKind, authentication: Authentication, secrets: [Secret], app: String?,
        defaultEnvironment: String?, freshness: Duration?, leeway: Leeway? = nil, ownership: Ownership? = nil,
        restore: RestoreStrategy = .transfer, merges: Bool = false, renamedEvents: [String: String] = [:],
        settings: KindSettings = .none, spooling: Spooling? = nil
    ) {
        self.name = name
        self.kind = kind
        self.authentication = authentication
        self.secrets = secrets
        self.app = app
        self.environment = defaultEnvironment
        self.freshness = freshness
        self.leeway = leeway ?? kind.traits.leeway
        self.ownership = ownership ?? kind.traits.ownerships.first ?? .exclusive
        self.restore = restore
        self.merges = merges
        self.renamedEvents = renamedEvents
        self.settings = settings
        self.spooling = spooling ?? (kind.traits.sendsOnce ? .whereItCan : .off)
    }

    /// Whether its webhooks may be kept on the daemon's disk.
    package var spools: Bool { spooling != .off }

    /// Whether a login stated by the app's backend moves the purchases of the anonymous holder: always, unless the kind
    /// has the key `merge`, which then decides.
    package var loginMoves: Bool { merges || !kind.traits.merges }

    /// Environment of events that name none if none is configured either.
    package static let usualEnvironment = "PRODUCTION"

    package var defaultEnvironment: String { environment ?? Self.usualEnvironment }

    /// The keys of the tokens by which it proves itself; nil: it has none.
    package var keySet: KeySetLocation? {
        if case .googlePlay(let settings) = settings { settings.keys } else { nil }
    }

    /// The API that is asked before its events are recorded; nil: nothing is asked.
    package var api: StoreAPI? {
        if case .googlePlay(let settings) = settings { settings.api } else { nil }
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
    /// The purchase that passed, where the original names none: a login, a transfer of everything that a holder has.
    package let unnamedPurchase: Purchase?
    /// The newest transaction of `unnamedPurchase`.
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

/// A kind of source as the other modules see it, without knowing which one it is.
package protocol SourceShape: Sendable {
    /// Whether only the vendor can make a body, so that `format = "source"` sends a derived transfer in the standard
    /// shape instead of `derivedBody`.
    var isSealed: Bool { get }

    /// The original object with event name, event id, holder and `transferred_*` set as the vendor would have sent it,
    /// for `format = "source"`. Everything else stays unchanged.
    func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8]

    /// Headers that authenticate this source at `unixSeconds`, for `format = "source"` and for `send`.
    func signatureHeaders(
        body: [UInt8], unixSeconds: Int64, authentication: Source.Authentication, secret: Secret
    ) -> [(name: String, value: String)]
}

extension SourceShape {
    package var isSealed: Bool { false }
}
