package import Vocabulary

/// Something that no command and no daemon leaves behind.
package struct AuditFinding: Sendable, Hashable {
    package enum Kind: String, Sendable, CaseIterable {
        /// A message was for an integration, and nothing says what became of it there.
        case unanswered
        /// It was tried, and neither waits any more nor was it accepted or given up.
        case lost
        /// It was given up, and its dead letter is gone.
        case noDeadLetter = "no_dead_letter"
        /// A delivery or a dead letter, and its message is gone.
        case noMessage = "no_message"
        /// A message, and its webhook is gone.
        case noEvent = "no_event"
        /// Whom a message was for cannot be read.
        case unreadable
        /// An integration that the database does not know.
        case noIntegration = "no_integration"
        /// A message waits twice for an integration, or waits and is a dead letter.
        case twice
        /// A delivery waits for a time that is further away than any schedule goes.
        case neverDue = "never_due"
        /// A delivery is leased by a daemon whose lease does not end.
        case leaseWithoutEnd = "leased_for_ever"
        /// A delivery or a dead letter says that it was tried, and attempts of it are gone.
        case noAttempt = "no_attempt"
        /// A dead letter, and no attempt that gave it up.
        case noLastAttempt = "no_last_attempt"
        /// A table of a period is gone, with all that was in it.
        case noTable = "no_table"
    }

    package let kind: Kind
    package let handle: AuditHandle
    /// Row of the message; nil: it is about a table.
    package let message: Int64?
    /// Row of the delivery; nil: it is about all of a message's for the integration, or about the message.
    package let delivery: Int64?
    /// By its name; of one that the database does not know, `#` and its row. Nil: about all.
    package let integration: String?
    /// Of the message, or of the delivery.
    package let createdAt: Timestamp?
    /// The table that is gone.
    package let table: String?

    init(
        _ kind: Kind, of handle: AuditHandle = .unknown, message: Int64? = nil, delivery: Int64? = nil,
        integration: String? = nil, createdAt: Timestamp? = nil, table: String? = nil
    ) {
        self.kind = kind
        self.handle = handle
        self.message = message
        self.delivery = delivery
        self.integration = integration
        self.createdAt = createdAt
        self.table = table
    }

    /// The SQL statement that mends it; nil: none does, or a command does it better.
    package var statement: String? {
        switch kind {
        case .neverDue: delivery.map { "UPDATE deliveries SET due_at = now() WHERE id = \($0)" }
        case .leaseWithoutEnd: "UPDATE daemons SET expires_at = now() WHERE expires_at > now() + interval '1 day'"
        default: nil
        }
    }
}
