/// A failure, classified by what the caller must decide. Printing one shows no row's data: see `Refusal`.
package enum DatabaseError: Error, Hashable, Sendable {
    /// No connection could be made, or the database is known to be out of reach.
    case connectFailed(reason: String)
    /// The connection was lost. Outside a transaction the statement may or may not have taken effect.
    case connectionLost(reason: String)
    /// Posthouse's own deadline passed and the connection was closed; outside a transaction the outcome is unknown.
    case timedOut(after: Duration)
    /// The server refused a statement; it had no effect.
    case refused(Refusal)
    /// COMMIT was sent and not clearly confirmed: the transaction may be committed, may be lost later, or never was.
    case commitUnknown(reason: String)
    /// Server and program disagree about the types of a statement, or the program misused the session.
    case protocolViolation(reason: String)

    /// The SQLSTATE of the server's refusal; nil: it is another failure.
    package var sqlState: SQLState? {
        if case .refused(let refusal) = self { refusal.sqlState } else { nil }
    }

    /// The connection or the server failed, not the statement: another connection may succeed later.
    package var isConnectionLevel: Bool {
        switch self {
        case .connectFailed, .connectionLost, .timedOut: true
        case .refused(let refusal): refusal.sqlState.isConnectionLevel
        case .commitUnknown, .protocolViolation: false
        }
    }

    /// The same transaction may succeed when it is run again; the connection is still usable.
    package var isRetryable: Bool { sqlState?.isRetryable == true }

    /// The state of the server caused the error: what was asked for may succeed when it is back, has room, or commits
    /// again (a primary without its synchronous standby does not).
    package var isTemporary: Bool {
        if case .commitUnknown = self { return true }
        return isConnectionLevel || isRetryable
    }

    /// The data caused the error: running the transaction again fails again.
    package var isDataError: Bool { sqlState?.isDataError == true }
}

/// The server's ERROR, without DETAIL, which quotes rows. Its description leaves out the quotations in messages of
/// class 22, which quote values.
package struct Refusal: Hashable, Sendable {
    package let sqlState: SQLState
    /// The primary message as sent.
    package let message: String
    package let constraint: String?
    /// The name of the statement that was refused; nil for a script.
    package let statement: String?

    package init(
        sqlState: SQLState, message: String, constraint: String? = nil, statement: String? = nil
    ) {
        self.sqlState = sqlState
        self.message = message
        self.constraint = constraint
        self.statement = statement
    }
}

/// A five-character SQLSTATE (PostgreSQL's appendix A, "Error Codes").
package struct SQLState: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    package let code: String

    package init(_ code: String) { self.code = code }
    package init(stringLiteral code: String) { self.code = code }

    /// The first two characters.
    package var conditionClass: Substring { code.prefix(2) }

    package var description: String { code }

    /// Connection exceptions, a server that shuts down, crashed or starts, too many connections; and 25006: this server
    /// is now a standby, and a new connection finds the primary.
    package var isConnectionLevel: Bool {
        conditionClass == "08" || ["57P01", "57P02", "57P03", "53300", "25006"].contains(code)
    }

    /// Serialisation failure, deadlock, insufficient resources, lock not available, cancelled by a time-out.
    package var isRetryable: Bool {
        conditionClass == "53" || ["40001", "40P01", "55P03", "57014"].contains(code)
    }

    /// Data exceptions and violated constraints.
    package var isDataError: Bool { conditionClass == "22" || conditionClass == "23" }
}

extension Refusal: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String {
        let subject = statement.map { "statement \($0)" } ?? "the script"
        let shown = sqlState.conditionClass == "22" ? withoutQuotations(message) : message
        return "the database refused \(subject): \(sqlState) \(shown)"
            + (constraint.map { " (constraint \($0))" } ?? "")
    }

    package var debugDescription: String { description }

    /// Empty, because reflection would print `message`.
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

extension DatabaseError: CustomStringConvertible, CustomDebugStringConvertible {
    package var description: String {
        switch self {
        case .connectFailed(let reason): "no connection to the database: \(reason)"
        case .connectionLost(let reason): "the connection to the database was lost: \(reason)"
        case .timedOut(let duration): "the database did not answer within \(duration); the connection was closed"
        case .refused(let refusal): refusal.description
        case .commitUnknown(let reason): "it is not known whether the transaction was committed: \(reason)"
        case .protocolViolation(let reason): "the database and the program disagree: \(reason)"
        }
    }

    package var debugDescription: String { description }
}

/// `text` without the part between its first and its last quotation mark, where servers and libpq quote values.
func withoutQuotations(_ text: String) -> String {
    guard let first = text.firstIndex(of: "\""), let last = text.lastIndex(of: "\""), first < last else { return text }
    return text[..<first] + "\"…\"" + text[text.index(after: last)...]
}
