internal import Vocabulary

/// The members of a body that may be in its `data` or beside it: `data` comes first, except for members of the
/// envelope.
struct SessionsFields {
    private let envelope: BodyFields
    private let data: BodyFields?

    init(_ body: [UInt8]) throws(Unreadable) {
        envelope = try BodyFields(body)
        data = envelope.object("data")
    }

    private var inner: [BodyFields] { [data, envelope].compactMap { $0 } }

    // MARK: Envelope

    /// `type` as in Standard Webhooks, else `event_name`. A `type` inside `data` is the app's own and ignored.
    func name() throws(Unreadable) -> String {
        for (fields, key) in [(envelope, "type"), (envelope, "event_name"), (data, "event_name")] {
            if let fields, fields.contains(key) { return try fields.requiredName(key) }
        }
        throw Unreadable(reason: "neither type nor event_name is there")
    }

    private static let timeKeys = ["timestamp", "occurred_at", "event_created_at"]

    /// The event time, in the first spelling that can be read.
    func occurredAt() throws(Unreadable) -> Timestamp {
        for fields in [envelope, data] {
            for key in Self.timeKeys {
                if let fields, let time = fields.instant(key) { return time }
            }
        }
        let names = Self.timeKeys.joined(separator: ", ")
        throw Unreadable(reason: "none of \(names) (or one of them with _ms) holds a time of the years 0000 to 9999")
    }

    // MARK: Ids

    /// An id whose type matters: a value that is neither a text nor a number throws.
    func id(_ keys: String...) throws(Unreadable) -> String? {
        for fields in inner {
            for key in keys {
                if let id = try fields.strictText(key) { return id }
            }
        }
        return nil
    }

    // MARK: What may be missing

    func text(_ keys: String...) throws(Unreadable) -> String? {
        for fields in inner {
            for key in keys {
                if let text = try fields.text(key) { return text }
            }
        }
        return nil
    }

    /// Milliseconds under `key_ms`, or ISO 8601 or a number under `key`; 0 means "never".
    func time(_ key: String) -> Timestamp? {
        for fields in inner {
            if let time = fields.time(.milliseconds(key + "_ms")), time.milliseconds != 0 { return time }
            if let time = fields.time(.iso8601(key)) ?? fields.epoch(key) { return time }
        }
        return nil
    }

    /// The same of an end. One that is there and cannot be read is not taken for none: access would never end.
    func end(_ key: String) throws(Unreadable) -> Timestamp? {
        if let time = time(key) { return time }
        for fields in inner {
            for spelled in [key + "_ms", key] where fields.states(spelled) {
                guard fields.time(.epoch(spelled))?.milliseconds == 0 else {
                    throw Unreadable(
                        reason: "\(spelled) is not a time: ISO 8601 with its offset, or a number since 1970, is needed")
                }
            }
        }
        return nil
    }

    func flag(_ key: String) -> Bool { inner.contains { $0.flag(key) } }
}

extension BodyFields {
    /// An event time in one of its spellings; nil if none can be read. Unlike other times it is never clamped.
    fileprivate func instant(_ key: String) -> Timestamp? {
        if let time = try? requiredTime(.milliseconds(key + "_ms")) { return time }
        if let time = try? requiredTime(.iso8601(key)) { return time }
        return try? requiredTime(.epoch(key))
    }
}
