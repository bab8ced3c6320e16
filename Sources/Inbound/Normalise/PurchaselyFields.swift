internal import JSONText
internal import Vocabulary

/// The members of a Purchasely body, read by the one rule of what is required and what may be missing.
///
/// The envelope (name, holder, event time) throws when it cannot be read. Elsewhere null, "" and a value of another
/// type all count as absent; only a text too long for an index row throws, for it cannot be recorded.
struct PurchaselyFields {
    private let object: JSONObject

    init(_ body: [UInt8]) throws(Unreadable) {
        do {
            object = try JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)
        } catch {
            throw Unreadable(reason: "the body is not one strict JSON object: \(error)")
        }
    }

    // MARK: The envelope

    func requiredName() throws(Unreadable) -> String {
        let name: String?
        do {
            name = try object.string("event_name")
        } catch {
            throw Self.unreadable("event_name", error)
        }
        guard let name, !name.isEmpty else { throw Unreadable(reason: "event_name is missing") }
        return try Self.bounded(name, "event_name")
    }

    /// Exactly one of the two ids; a number is kept digit for digit.
    func requiredHolder() throws(Unreadable) -> Holder {
        switch (try requiredText("user_id"), try requiredText("anonymous_user_id")) {
        case (let user?, nil): return .user(user)
        case (nil, let anonymous?): return .anonymous(anonymous)
        case (nil, nil): throw Unreadable(reason: "neither user_id nor anonymous_user_id is there")
        case (_?, _?): throw Unreadable(reason: "both user_id and anonymous_user_id are there")
        }
    }

    func requiredEventTime() throws(Unreadable) -> Timestamp {
        let key = "event_created_at"
        let time: Timestamp?
        do {
            if let milliseconds = try object.integer(key + "_ms") {
                time = Timestamp(milliseconds: milliseconds)
            } else {
                time = try object.string(key).flatMap { Timestamp(iso8601: $0) }
            }
        } catch {
            throw Self.unreadable(key, error)
        }
        guard let time else { throw Unreadable(reason: "neither \(key)_ms nor an ISO 8601 \(key) is there") }
        guard Timestamp.writable.contains(time) else {
            throw Unreadable(reason: "\(key) lies outside the years 0000 to 9999")
        }
        return time
    }

    // MARK: The rest

    /// An id or a name.
    func text(_ key: String) throws(Unreadable) -> String? {
        guard let text = try? object.digits(key), !text.isEmpty else { return nil }
        return try Self.bounded(text, key)
    }

    /// `key_ms`, else `key` in ISO 8601. A time past what can be written stands for the nearest that can: what never
    /// ends still never ends.
    func time(_ key: String) -> Timestamp? {
        let read: Timestamp?
        if let milliseconds = try? object.integer(key + "_ms") {
            read = Timestamp(milliseconds: milliseconds)
        } else {
            read = (try? object.string(key)).flatMap { Timestamp(iso8601: $0) }
        }
        return read?.nearestWritable
    }

    func flag(_ key: String) -> Bool { (try? object.bool(key)) ?? false }

    /// The other side of a transfer. Two of them name none: taking one would be a guess at who gets access.
    func counterpart(_ prefix: String) throws(Unreadable) -> Holder? {
        switch (try text(prefix + "_user_id"), try text(prefix + "_anonymous_user_id")) {
        case (let user?, nil): .user(user)
        case (nil, let anonymous?): .anonymous(anonymous)
        default: nil
        }
    }

    private func requiredText(_ key: String) throws(Unreadable) -> String? {
        let text: String?
        do {
            text = try object.digits(key)
        } catch {
            throw Self.unreadable(key, error)
        }
        guard let text, !text.isEmpty else { return nil }
        return try Self.bounded(text, key)
    }

    private static func bounded(_ text: String, _ key: String) throws(Unreadable) -> String {
        guard text.utf8.count <= Limits.identifierBytesMax else {
            throw Unreadable(reason: "\(key) is longer than \(Limits.identifierBytesMax) bytes")
        }
        return text
    }

    private static func unreadable(_ key: String, _ error: JSONError) -> Unreadable {
        Unreadable(reason: "\(key) cannot be read: \(error)")
    }
}

extension Timestamp {
    /// This instant, or the nearest one that ISO 8601 can write.
    var nearestWritable: Timestamp { min(max(self, Self.writable.lowerBound), Self.writable.upperBound) }
}
