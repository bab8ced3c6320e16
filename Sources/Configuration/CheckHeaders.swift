internal import Vocabulary

// `headers` of an integration.

extension Check {
    mutating func headers(of view: TableView) -> [Integration.Header] {
        guard let entry = view["headers"] else { return [] }
        guard let entries = entry.node.entries else {
            mismatch(entry, "headers", view)
            return []
        }
        guard entries.count <= ConfigurationLimits.headersMax else {
            report.error(
                "`headers` has \(entries.count) fields; \(ConfigurationLimits.headersMax) are allowed",
                at: entry.keySpan)
            return []
        }
        var seen: [String: Span] = [:]
        var headers: [Integration.Header] = []
        for field in entries {
            headerName(field, &seen)
            if let value = headerValue(field) { headers.append(Integration.Header(name: field.key, value: value)) }
        }
        return headers
    }

    private mutating func headerName(_ field: TomlEntry, _ seen: inout [String: Span]) {
        let lowered = field.key.lowercased()
        guard HeaderText.isName(field.key) else {
            report.error("\(Quote.value(field.key)) is no name of an HTTP header field", at: field.keySpan)
            return
        }
        if HeaderText.isReserved(lowered) {
            report.error(
                "the header \(Quote.value(field.key)) is set by the relay itself; remove it", at: field.keySpan)
        }
        if let first = seen[lowered] {
            report.error(
                "the header \(Quote.value(field.key)) is set twice", at: field.keySpan,
                note: ("the first one is here", first))
        }
        seen[lowered] = field.keySpan
    }

    private mutating func headerValue(_ field: TomlEntry) -> Secret? {
        let value: Secret
        switch field.node.value {
        case .string(let text): value = Secret(Array(text.utf8))
        case .table:
            guard let read = secret(field.node, key: field.key) else { return nil }
            value = read
        default:
            report.error(
                "the header \(Quote.value(field.key)) must be a string or \(Schema.expectedSecret), "
                    + "not \(field.node.kindName)", at: field.node.span)
            return nil
        }
        guard value.withBytes(HeaderText.isValue) else {
            report.error(
                "the value of the header \(Quote.value(field.key)) must be 1 to "
                    + "\(ConfigurationLimits.headerValueBytesMax) bytes without control characters or outer blanks",
                at: field.node.span)
            return nil
        }
        return value
    }
}

/// The header fields that HTTP allows (RFC 9110 §5.1, §5.5, §5.6.2).
enum HeaderText {
    private static let reserved: Set<String> = [
        "connection", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade",
    ]

    /// Whether the relay sends this header itself, or the header frames the message. `name` in lower case.
    static func isReserved(_ name: String) -> Bool { reserved.contains(name) || name.hasPrefix("webhook-") }

    /// Whether the name is a token.
    static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 256
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// A value has neither CR nor LF nor another control character, so that it cannot become a field of its own.
    static func isValue(_ bytes: [UInt8]) -> Bool {
        guard let first = bytes.first, let last = bytes.last, bytes.count <= ConfigurationLimits.headerValueBytesMax,
            first != UInt8(ascii: " "), last != UInt8(ascii: " ")
        else { return false }
        return bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }
}
