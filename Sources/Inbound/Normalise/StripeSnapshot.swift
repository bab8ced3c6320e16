internal import Vocabulary

/// The envelope of a snapshot event (docs.stripe.com/api/events/object), and whom its objects name.
struct StripeSnapshot {
    /// The member of a checkout session that an app sets to its own id; as `user_key` it is this member.
    private static let clientReference = "client_reference_id"

    /// What is to be done at Stripe: the payload style of an event destination cannot be changed later.
    private static let thin = Unreadable(
        reason: "this is a thin event: it names an object and does not contain it; at Stripe, make an event "
            + "destination for this URL with the payload style Snapshot (event_payload \"snapshot\"), remove this one")

    private let envelope: BodyFields
    let name: String
    /// `created`: whole seconds.
    let createdAt: Timestamp
    /// `data.object`: the object as it was at that moment.
    let object: BodyFields
    /// `data.previous_attributes`: the old values of what has changed; nil where the event has none.
    let previous: BodyFields?
    private let userKey: String

    init(_ body: [UInt8], userKey: String) throws(Unreadable) {
        self.userKey = userKey
        envelope = try BodyFields(body)
        name = try envelope.requiredName("type")
        let kind = try envelope.text("object")
        if kind?.hasPrefix("v2.") == true || name.hasPrefix("v1.") || name.hasPrefix("v2.") { throw Self.thin }
        createdAt = try envelope.requiredTime(.epoch("created"))
        let data = try envelope.requiredObject("data")
        object = try data.requiredObject("object")
        previous = data.object("previous_attributes")
    }

    /// The event's id (`evt_…`): the same in every attempt and at every endpoint.
    func id() throws(Unreadable) -> String? { try envelope.text("id") }

    /// The connected account that the event is of (`acct_…`), at an endpoint of Connect.
    func account() throws(Unreadable) -> String? { try envelope.text("account") }

    /// False in test mode and in sandboxes; nil: the event does not say.
    var isLive: Bool? { envelope.bool("livemode") }

    // MARK: Who

    /// The user whom the metadata in `fields` name.
    func user(in fields: BodyFields) throws(Unreadable) -> String? {
        try fields.object("metadata")?.strictText(userKey)
    }

    /// The user whom a checkout session names.
    func user(ofSession fields: BodyFields) throws(Unreadable) -> String? {
        if userKey == Self.clientReference, let user = try fields.strictText(Self.clientReference) { return user }
        return try user(in: fields)
    }

    /// The customer of an object (`cus_…`), or the account that stands for one (`acct_…`).
    func customer(of fields: BodyFields) throws(Unreadable) -> String? {
        if let customer = try fields.strictText("customer") { return customer }
        return try fields.strictText("customer_account")
    }

    /// Whether the user in the object's metadata is another than before.
    var hasNewUser: Bool { previous?.object("metadata")?.contains(userKey) == true }
}
