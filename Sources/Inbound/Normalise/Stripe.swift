package import Vocabulary

/// Stripe, snapshot events of API v1 (docs.stripe.com/api/events, docs.stripe.com/billing/subscriptions/webhooks).
/// `StripeNames` has the meaning of each type.
///
/// An event contains its object as it was at that moment, in the shape of the endpoint's API version: members that a
/// version has moved are read in both places. Its own id, and the `created` in it, are the same in every attempt.
///
/// | object | purchase | who has it |
/// |--|--|--|
/// | subscription | its id; several items are one purchase | `metadata`, else the customer |
/// | invoice | the subscription's | the copy of the metadata, where no subscription's event has named a user |
/// | checkout session, `subscription` | the subscription's | once completed, the metadata name the customer's user |
/// | checkout session, `payment` | the payment intent, else the session: one-time | the metadata, as above |
/// | charge | the payment intent, unless it paid a subscription | the customer |
/// | customer | none | the metadata name the customer's user |
///
/// The key of the metadata that names the user is configured; with `client_reference_id` it is that member of the
/// session. Where an event names no user, its fact is nameless: it names the customer (`cus_…`) as an anonymous holder,
/// and at a guest checkout the payment.
package struct Stripe: SourceAdapter {
    /// Bytes of a body that may be a ping; a ping has some 600.
    private static let pingBytesMax = 2_048

    package init() {}

    package var knownEventNames: [String] { StripeNames.all }

    package let signature: KeyedSignature? = KeyedSignature(StripeSignature.self)

    /// Answers the ping of the dashboard, which is a thin event
    /// (docs.stripe.com/api/v2/core/event-destinations/event-types). Stripe looks at the status only.
    package func handshake(_ body: [UInt8]) -> [UInt8]? {
        guard body.count <= Self.pingBytesMax, let fields = try? BodyFields(body),
            let type = try? fields.text("type"), type == StripeNames.ping
        else { return nil }
        return Array("{}".utf8)
    }

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let snapshot = try StripeSnapshot(body, userKey: Self.userKey(of: source))
        let stated = try statement(of: snapshot)
        let app = if let app = source.app { app } else { try snapshot.account() ?? "" }
        let environment = snapshot.isLive.map { $0 ? SharedVocabulary.production : SharedVocabulary.sandbox }
        return Event(
            scope: Scope(source: source.name, app: app, environment: environment ?? source.defaultEnvironment),
            vendorEventID: try snapshot.id(),
            name: snapshot.name,
            type: stated.type,
            holder: stated.holder,
            occurredAt: snapshot.createdAt,
            // An event is one object of Stripe's API: every attempt and every endpoint shows the same `created`.
            isTimeRepeated: true,
            // Within a second as its facts are.
            asOf: stated.facts.first?.at,
            yieldsTransaction: stated.yieldsTransaction,
            yieldsProduct: stated.yieldsProduct,
            purchase: stated.purchase,
            transaction: stated.transaction,
            money: stated.money?.json,
            typeIfKnown: stated.typeIfKnown,
            facts: stated.facts,
            change: stated.movesPurchases ? stated.links.first.flatMap(Self.change) : nil,
            links: stated.links,
            body: body)
    }

    /// A link is about every purchase of the customer whose events name no user.
    private static func change(_ link: HolderLink) -> HolderChange? {
        link.userID.map { .move(from: [.anonymous(link.anonymousID)], to: .user($0), isNative: false) }
    }

    private static func userKey(of source: Source) -> String {
        if case .stripe(let settings) = source.settings { settings.userKey } else { StripeSettings.usualUserKey }
    }

    private func statement(of snapshot: StripeSnapshot) throws(Unreadable) -> StripeStatement {
        if snapshot.name.hasPrefix(StripeNames.subscriptionPrefix) {
            return try StripeSubscription(snapshot).statement()
        }
        if snapshot.name.hasPrefix(StripeNames.invoicePrefix) { return try StripeInvoice(snapshot).statement() }
        if snapshot.name.hasPrefix(StripeNames.sessionPrefix) { return try StripeSession(snapshot).statement() }
        switch snapshot.name {
        case StripeNames.customerCreated, StripeNames.customerUpdated, StripeNames.customerDeleted:
            return try StripeCustomer.statement(of: snapshot)
        case StripeNames.chargeRefunded: return try StripeCharge.statement(of: snapshot)
        default: return try StripeCustomer.other(snapshot)
        }
    }
}
