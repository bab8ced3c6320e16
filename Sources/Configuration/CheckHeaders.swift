internal import Vocabulary

// `headers` of an integration.

extension Check {
    mutating func headers(of view: TableView) -> [HeaderField] {
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
        var headers: [HeaderField] = []
        for field in entries {
            headerName(field, &seen)
            if let value = headerValue(field) { headers.append(HeaderField(name: field.key, value: value)) }
        }
        return headers
    }

    private mutating func headerName(_ field: TomlEntry, _ seen: inout [String: Span]) {
        let lowered = field.key.lowercased()
        guard isHeaderName(field.key) else {
            report.error("\(Quote.value(field.key)) is not a name of an HTTP header field", at: field.keySpan)
            return
        }
        if Integration.isReserved(header: lowered) {
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
        guard value.withBytes(isHeaderValue) else {
            report.error(
                "the value of the header \(Quote.value(field.key)) must be 1 to "
                    + "\(ConfigurationLimits.headerValueBytesMax) bytes without control characters or outer blanks",
                at: field.node.span)
            return nil
        }
        return value
    }

    private func isHeaderName(_ name: String) -> Bool {
        name.utf8.count <= ConfigurationLimits.headerNameBytesMax && HeaderField.isName(name)
    }

    /// Whether a request can have a field with this value.
    func isHeaderValue(_ bytes: [UInt8]) -> Bool {
        guard let first = bytes.first, let last = bytes.last, bytes.count <= ConfigurationLimits.headerValueBytesMax,
            first != UInt8(ascii: " "), last != UInt8(ascii: " ")
        else { return false }
        return HeaderField.isValue(bytes)
    }
}
