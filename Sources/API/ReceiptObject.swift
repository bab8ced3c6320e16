internal import JSONText
internal import Vocabulary

/// One object of a receipt with its path, read the way the store writes it: booleans and numbers may be text, null and
/// "" mean absent, and a time has up to three spellings.
struct ReceiptObject {
    private let object: JSONObject
    private let path: String

    init(_ object: JSONObject, path: String) {
        self.object = object
        self.path = path
    }

    /// A fault of the member `key`; nil: of the object itself.
    func fault(_ key: String?, _ problem: String) -> ReceiptFault {
        ReceiptFault(path: key.map { "\(path).\($0)" } ?? path, problem: problem)
    }

    /// The objects of an array; nil if it is absent. An element that is no object is a fault, because it may hide what
    /// decides.
    func objects(_ key: String, max: Int) throws(ReceiptFault) -> [ReceiptObject]? {
        guard states(key), let raw = object.raw(key) else { return nil }
        guard raw.first == UInt8(ascii: "["), let objects = try? object.objects(key) else {
            throw fault(key, "is not an array")
        }
        guard objects.count <= max else {
            throw fault(key, "has \(objects.count) members; \(max) are allowed")
        }
        guard (try? object.elementCount(key)) == objects.count else {
            throw fault(key, "holds something other than objects")
        }
        return objects.enumerated().map { ReceiptObject($1, path: "\(path).\(key)[\($0)]") }
    }

    /// A text, or an integer digit for digit.
    func id(_ key: String) throws(ReceiptFault) -> String? {
        guard states(key) else { return nil }
        guard let text = try? object.digits(key) else { throw fault(key, "is neither a string nor an integer") }
        guard text.utf8.count <= Limits.identifierBytesMax else {
            throw fault(key, "is longer than \(Limits.identifierBytesMax) bytes")
        }
        return text
    }

    /// `true`, `"true"`, `false` or `"false"`; absent: false.
    func flag(_ key: String) throws(ReceiptFault) -> Bool {
        guard states(key) else { return false }
        if let flag = try? object.bool(key) { return flag }
        switch try? object.string(key) {
        case "true": return true
        case "false": return false
        default: throw fault(key, "is neither true nor false")
        }
    }

    /// The time under `key_ms`, in milliseconds. The text under `key` is used only if `key_ms` is absent, not if it is
    /// unreadable. Nil: no readable time.
    func expiry(_ key: String) -> Timestamp? {
        if states(key + "_ms") {
            return (try? object.digits(key + "_ms")).flatMap { Int64($0) }.map { Timestamp(milliseconds: $0) }
        }
        return (try? object.string(key)).flatMap(Self.time)
    }

    /// Whether there is a value other than null and "".
    func states(_ key: String) -> Bool {
        guard let raw = object.raw(key) else { return false }
        return raw.first != UInt8(ascii: "n") && !raw.elementsEqual("\"\"".utf8)
    }

    /// Reads `2024-01-31 10:11:12 Etc/GMT` independently of the machine's locale and calendar.
    private static func time(_ text: String) -> Timestamp? {
        let zone = " Etc/GMT"
        guard text.hasSuffix(zone) else { return nil }
        let parts = text.dropLast(zone.count).split(separator: " ", omittingEmptySubsequences: false)
        return parts.count == 2 ? Timestamp(iso8601: "\(parts[0])T\(parts[1])Z") : nil
    }
}
