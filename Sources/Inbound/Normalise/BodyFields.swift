internal import JSONText
internal import Vocabulary

/// The members of one object of a webhook, read by one rule for required and optional members.
///
/// Members that the envelope needs (`required…`) throw when they cannot be read. Elsewhere null, "" and a value of
/// another type count as absent; only a text too long for an index row throws, because it cannot be recorded.
struct BodyFields {
    private let object: JSONObject
    /// The prefix of a member's name in a message: "" or "event.".
    private let path: String

    /// The object that is the whole body.
    init(_ body: [UInt8]) throws(Unreadable) {
        do {
            object = try JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)
        } catch {
            throw Unreadable(reason: "the body is not one strict JSON object: \(error)")
        }
        path = ""
    }

    /// `{}`.
    static let none = BodyFields(.empty, path: "")

    private init(_ object: JSONObject, path: String) {
        self.object = object
        self.path = path
    }

    // MARK: Required

    func requiredText(_ key: String) throws(Unreadable) -> String {
        guard let text = try strictText(key) else { throw Unreadable(reason: "\(path)\(key) is missing") }
        return text
    }

    /// An id of the envelope. Absent, null and "" are nil; another type throws. A number is kept digit for digit.
    func strictText(_ key: String) throws(Unreadable) -> String? {
        let text: String?
        do {
            text = try object.digits(key)
        } catch {
            throw unreadable(key, error)
        }
        guard let text, !text.isEmpty else { return nil }
        return try bounded(text, key)
    }

    /// A name, which must be a string, not a number.
    func requiredName(_ key: String) throws(Unreadable) -> String {
        let name: String?
        do {
            name = try object.string(key)
        } catch {
            throw unreadable(key, error)
        }
        guard let name, !name.isEmpty else { throw Unreadable(reason: "\(path)\(key) is missing") }
        return try bounded(name, key)
    }

    func requiredObject(_ key: String) throws(Unreadable) -> BodyFields {
        do {
            if let inner = try object.object(key) { return BodyFields(inner, path: "\(path)\(key).") }
        } catch {
            throw unreadable(key, error)
        }
        throw Unreadable(reason: "\(path)\(key) is missing")
    }

    /// The event time, in the first of `spellings` that is there; a value of another type throws.
    func requiredTime(_ spellings: TimeSpelling...) throws(Unreadable) -> Timestamp {
        for spelling in spellings {
            let read: Timestamp?
            do {
                read = try self.read(spelling)
            } catch {
                throw unreadable(spelling.key, error)
            }
            guard let read else { continue }
            guard Timestamp.writable.contains(read) else {
                throw Unreadable(reason: "\(path)\(spelling.key) lies outside the years 0000 to 9999")
            }
            return read
        }
        let names = spellings.map { path + $0.description }.joined(separator: " nor ")
        throw Unreadable(reason: spellings.count > 1 ? "neither \(names) is there" : "no \(names) is there")
    }

    // MARK: What may be missing

    /// An id or a name; a number is kept digit for digit.
    func text(_ key: String) throws(Unreadable) -> String? {
        guard let text = try? object.digits(key), !text.isEmpty else { return nil }
        return try bounded(text, key)
    }

    /// The time, if it can be read. One beyond the writable range becomes the nearest writable one, so that a period
    /// without an end keeps none.
    func time(_ spelling: TimeSpelling) -> Timestamp? { (try? read(spelling))?.nearestWritable }

    /// Seconds or milliseconds since 1970. Nil if it is absent or 0, which means "never".
    func epoch(_ key: String) -> Timestamp? {
        guard let time = time(.epoch(key)), time.milliseconds != 0 else { return nil }
        return time
    }

    /// False if it is absent.
    func flag(_ key: String) -> Bool { bool(key) ?? false }

    /// Nil if it is absent, for flags for which false has a meaning.
    func bool(_ key: String) -> Bool? { (try? object.bool(key)) ?? nil }

    /// A number, or a text that is one, digit for digit; nil for anything else.
    ///
    /// - Parameter minorDigits: as for `ExactDecimal`.
    func decimal(_ key: String, minorDigits: Int = 0) -> ExactDecimal? {
        guard var token = object.raw(key) else { return nil }
        if token.first == UInt8(ascii: "\"") { token = token.dropFirst().dropLast() }
        return ExactDecimal(token, minorDigits: minorDigits)
    }

    /// An ISO 4217 code, in upper case; nil for what has not three letters.
    func currency(_ key: String) -> String? {
        guard let code = try? text(key), code.utf8.count == 3 else { return nil }
        let upperCased = SharedVocabulary.upperCased(code)
        return upperCased.utf8.allSatisfy((UInt8(ascii: "A")...UInt8(ascii: "Z")).contains) ? upperCased : nil
    }

    func object(_ key: String) -> BodyFields? {
        guard let inner = try? object.object(key) else { return nil }
        return BodyFields(inner, path: "\(path)\(key).")
    }

    /// The objects of an array; other elements are left out.
    func objects(_ key: String) -> [BodyFields] {
        ((try? object.objects(key)) ?? []).map { BodyFields($0, path: "\(path)\(key)[].") }
    }

    /// The ids of an array; other elements and "" are left out.
    func texts(_ key: String) throws(Unreadable) -> [String] {
        var texts: [String] = []
        for text in (try? object.texts(key)) ?? [] where !text.isEmpty { texts.append(try bounded(text, key)) }
        return texts
    }

    func contains(_ key: String) -> Bool { object.rawRange(key) != nil }

    /// Whether it is there, and neither null nor "".
    func states(_ key: String) -> Bool {
        guard let raw = object.raw(key) else { return false }
        return !raw.elementsEqual("null".utf8) && !raw.elementsEqual("\"\"".utf8)
    }

    var keys: [String] { object.keys }

    var isEmpty: Bool { object.count == 0 }

    private func read(_ spelling: TimeSpelling) throws(JSONError) -> Timestamp? {
        switch spelling {
        case .milliseconds(let key): try object.integer(key).map { Timestamp(milliseconds: $0) }
        case .iso8601(let key): try object.string(key).flatMap { Timestamp(iso8601: $0) }
        case .epoch(let key): try object.integer(key).map { Timestamp(secondsOrMilliseconds: $0) }
        }
    }

    private func bounded(_ text: String, _ key: String) throws(Unreadable) -> String {
        guard text.utf8.count <= Limits.identifierBytesMax else {
            throw Unreadable(reason: "\(path)\(key) is longer than \(Limits.identifierBytesMax) bytes")
        }
        return text
    }

    private func unreadable(_ key: String, _ error: JSONError) -> Unreadable {
        Unreadable(reason: "\(path)\(key) cannot be read: \(error)")
    }
}

/// A vendor's spelling of a time, with its key.
enum TimeSpelling: CustomStringConvertible {
    /// Milliseconds since 1970.
    case milliseconds(String)
    /// Seconds since 1970 in one place, milliseconds in another, as in Qonversion's own examples.
    case epoch(String)
    case iso8601(String)

    var key: String {
        switch self {
        case .milliseconds(let key), .epoch(let key), .iso8601(let key): key
        }
    }

    var description: String {
        switch self {
        case .milliseconds(let key), .epoch(let key): key
        case .iso8601(let key): "an ISO 8601 \(key)"
        }
    }
}

extension Timestamp {
    /// This instant, or the nearest one that ISO 8601 can write.
    var nearestWritable: Timestamp { min(max(self, Self.writable.lowerBound), Self.writable.upperBound) }
}
