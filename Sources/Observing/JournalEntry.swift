package import Systemd
package import Vocabulary

/// One entry, as journald's fields or as one line of logfmt or JSON.
package struct JournalEntry: Sendable, Equatable {
    /// syslog(3) severities, as PRIORITY has them.
    package enum Priority: Int, Sendable {
        case error = 3
        case warning = 4
        case notice = 5
        case info = 6

        /// As readers of lines expect it.
        package var level: String {
            switch self {
            case .error: "error"
            case .warning: "warning"
            case .notice: "notice"
            case .info: "info"
            }
        }
    }

    package struct Field: Sendable, Equatable {
        /// Without `POSTHOUSE_`.
        package let name: String
        /// Unchanged: journald takes any bytes, and a search by an id must find exactly that id.
        package let value: String
        /// A count, a duration or a status; in JSON a number. Ids are strings even if they have only digits.
        var isNumber = false
    }

    package let kind: JournalEntryKind
    package let priority: Priority
    /// One line that a person can read, without unsafe characters.
    package let message: String
    package let fields: [Field]

    /// For the native protocol.
    package var record: JournalRecord {
        var record = JournalRecord()
        record.append("MESSAGE", message)
        record.append("PRIORITY", String(priority.rawValue))
        record.append("MESSAGE_ID", kind.messageID)
        record.append("SYSLOG_IDENTIFIER", "posthouse")
        for field in fields { record.append("POSTHOUSE_" + field.name, field.value) }
        return record
    }

    /// One line with its newline: time, level, msg, then the fields in lower case.
    package func logfmt(at time: Timestamp) -> String {
        var line = "time=\(readable(time)) level=\(priority.level) msg=\(PlainText.logfmtValue(message))"
        for field in fields { line += " \(field.name.lowercased())=\(PlainText.logfmtValue(field.value))" }
        return line + "\n"
    }

    /// One JSON object with its newline: time and level as in logfmt, then the journal's fields with their names in
    /// lower case. Nothing is cut: a search by an id must find exactly that id.
    package func json(at time: Timestamp) -> String {
        var line = "{\"time\":\"\(readable(time))\",\"level\":\"\(priority.level)\""
        line += ",\"message\":\(PlainText.jsonString(message)),\"priority\":\(priority.rawValue)"
        line += ",\"message_id\":\"\(kind.messageID)\",\"syslog_identifier\":\"posthouse\""
        for field in fields {
            let value = field.isNumber ? field.value : PlainText.jsonString(field.value)
            line += ",\"posthouse_\(field.name.lowercased())\":\(value)"
        }
        return line + "}\n"
    }
}

/// The fields of one entry, in the order of posthouse-journal(7), "Fields"; an absent value is an absent field.
struct FieldList {
    private(set) var fields: [JournalEntry.Field] = []

    mutating func add(_ name: String, _ value: String?) {
        if let value { fields.append(.init(name: name, value: value)) }
    }

    mutating func add(_ name: String, _ value: Int?) {
        if let value { fields.append(.init(name: name, value: String(value), isNumber: true)) }
    }
}

/// ISO 8601, or bare milliseconds for an instant that it cannot write.
func readable(_ time: Timestamp) -> String {
    Timestamp.writable.contains(time) ? time.iso8601 : "\(time.milliseconds)ms"
}
