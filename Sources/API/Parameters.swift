internal import Ledger
internal import Vocabulary

/// A request's query. Every parameter must be known, and only repeatable ones may be repeated: a misspelt filter must
/// not be ignored.
struct Parameters {
    private let values: [Parameter: [String]]

    init(_ query: String?, of operation: APIOperation) throws(APIFailure) {
        guard (query?.utf8.count ?? 0) <= APILimits.queryBytesMax else {
            throw .parameter("the query is longer than \(APILimits.queryBytesMax) bytes")
        }
        var values: [Parameter: [String]] = [:]
        for pair in (query ?? "").split(separator: "&") {
            let mark = pair.firstIndex(of: "=") ?? pair.endIndex
            let name = try Self.decode(pair[..<mark], "the name of a query parameter")
            guard let parameter = Parameter(rawValue: name), operation.parameters.contains(parameter) else {
                throw .parameter(Self.unknown(operation))
            }
            if values[parameter] != nil, !parameter.isRepeatable {
                throw .parameter("\(name) may be given once")
            }
            values[parameter, default: []].append(try Self.decode(pair[mark...].dropFirst(), name))
        }
        self.values = values
    }

    private static func unknown(_ operation: APIOperation) -> String {
        let known = operation.parameters.map(\.rawValue).joined(separator: ", ")
        return known.isEmpty
            ? "no query parameters are understood here" : "an unknown query parameter; understood are \(known)"
    }

    private static func decode(_ text: Substring, _ what: String) throws(APIFailure) -> String {
        do throws(PercentText.Fault) {
            return try PercentText.decode(text, plusIsSpace: true)
        } catch {
            throw .parameter("\(what) cannot be read: \(error)")
        }
    }

    /// An id that the ledger can store.
    static func identifier(_ text: String, _ name: String) throws(APIFailure) -> String {
        guard !text.isEmpty else { throw .parameter("\(name) is empty") }
        guard text.utf8.count <= Limits.identifierBytesMax else {
            throw .parameter("\(name) is longer than \(Limits.identifierBytesMax) bytes")
        }
        return text
    }

    func identifier(_ parameter: Parameter) throws(APIFailure) -> String? {
        guard let text = values[parameter]?.first else { return nil }
        return try Self.identifier(text, parameter.rawValue)
    }

    /// The app. It may be empty: that of events that name none.
    var app: String? {
        get throws(APIFailure) {
            guard let text = values[.app]?.first, !text.isEmpty else { return values[.app]?.first }
            return try Self.identifier(text, Parameter.app.rawValue)
        }
    }

    // MARK: What they mean

    var groups: [String] {
        get throws(APIFailure) {
            let groups = values[.group] ?? []
            guard !groups.isEmpty else { throw .parameter("group is missing: the name of a subscription group") }
            guard groups.count <= APILimits.groupsMax else {
                throw .parameter("\(APILimits.groupsMax) groups at most can be asked for at once")
            }
            for group in groups { _ = try Self.identifier(group, "group") }
            return groups
        }
    }

    /// The subject: exactly one of those that the operation accepts.
    func subject(of operation: APIOperation) throws(APIFailure) -> LookupSubject {
        var subjects: [LookupSubject] = []
        if let id = try identifier(.install) { subjects.append(.install(id)) }
        if let id = try identifier(.userID) { subjects.append(.holder(.user(id))) }
        if let id = try identifier(.anonymousUserID) { subjects.append(.holder(.anonymous(id))) }
        guard let subject = subjects.first, subjects.count == 1 else {
            let known = [Parameter.install, .userID, .anonymousUserID].filter { operation.parameters.contains($0) }
            throw .parameter("exactly one of \(known.map(\.rawValue).joined(separator: ", ")) is needed")
        }
        return subject
    }

    var offer: Offer {
        get throws(APIFailure) {
            guard let text = values[.offer]?.first else { return .introductory }
            guard let offer = Offer(rawValue: text) else {
                throw .parameter("offer is neither introductory nor promotional")
            }
            return offer
        }
    }

    var isActive: Bool? {
        get throws(APIFailure) {
            switch values[.active]?.first {
            case nil: return nil
            case "true": return true
            case "false": return false
            default: throw .parameter("active is neither true nor false")
            }
        }
    }

    var limit: Int { get throws(APIFailure) { try limit(default: APILimits.pageEntries) } }

    func limit(default: Int) throws(APIFailure) -> Int {
        guard let text = values[.limit]?.first else { return `default` }
        let isDigits = !text.isEmpty && text.utf8.allSatisfy { (0x30...0x39).contains($0) }
        guard isDigits, let limit = Int(text), (1...APILimits.pageEntriesMax).contains(limit) else {
            throw .parameter("limit is not a number from 1 to \(APILimits.pageEntriesMax)")
        }
        return limit
    }

    var cursor: LookupCursor? {
        get throws(APIFailure) {
            guard let text = values[.cursor]?.first else { return nil }
            guard let cursor = LookupCursor(written: text) else {
                throw .parameter("cursor must be a \"next\" of an earlier answer")
            }
            return cursor
        }
    }
}
