import Vocabulary

/// How a message's webhook and the message itself are called elsewhere; nil where the rows that say so are gone.
package struct AuditHandle: Sendable, Hashable {
    package let source: String?
    /// `webhook-id`
    package let message: String?
    /// The vendor's event id, else the relay's.
    package let event: String?

    init(source: String?, message: Identifier?, vendorEventID: String?, event: Identifier?) {
        self.source = source
        self.message = message?.messageID
        self.event = vendorEventID ?? event?.eventID
    }

    private init() { (source, message, event) = (nil, nil, nil) }

    static let unknown = AuditHandle()
}
