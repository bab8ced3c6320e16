/// An object of a scanned text: the positions of its members, whose values are decoded on request.
///
/// Every accessor returns nil for a member that is absent or null, and throws for one of another type; the error has
/// the member's offset and nothing of its content.
package struct JSONObject: Sendable {
    /// The whole text, byte for byte.
    package let bytes: [UInt8]
    /// From the opening brace to the end of the closing one.
    package let range: Range<Int>
    let members: [JSONMember]

    init(bytes: [UInt8], range: Range<Int>, members: [JSONMember]) {
        self.bytes = bytes
        self.range = range
        self.members = members
    }

    /// `{}`.
    package static let empty = JSONObject(bytes: Array("{}".utf8), range: 0..<2, members: [])

    /// The number of members, including those that are null.
    package var count: Int { members.count }

    /// The decoded keys, in the order of the text.
    package var keys: [String] { members.map { JSONString.decoded(bytes, $0.key) } }

    /// The position of the value of `key`, even if it is null; nil only if the member is absent.
    package func rawRange(_ key: String) -> Range<Int>? {
        JSONMember.named(key, among: members, in: bytes.span)?.value
    }

    /// The text of the value of `key`.
    package func raw(_ key: String) -> ArraySlice<UInt8>? { rawRange(key).map { bytes[$0] } }

    package func string(_ key: String) throws(JSONError) -> String? {
        guard let range = present(key) else { return nil }
        guard bytes[range.lowerBound] == UInt8(ascii: "\"") else { throw JSONError(.notAString, at: range.lowerBound) }
        return JSONString.decoded(bytes, (range.lowerBound + 1)..<(range.upperBound - 1))
    }

    /// An exact integer. `1.0` and `1e3` are rejected: no vendor writes an id or a time like that, and a value that
    /// would have to be guessed is better quarantined.
    package func integer(_ key: String) throws(JSONError) -> Int64? {
        guard let range = present(key) else { return nil }
        guard isInteger(range), let value = Int64(String(decoding: bytes[range], as: UTF8.self)) else {
            throw JSONError(.notAnInteger, at: range.lowerBound)
        }
        return value
    }

    /// An id: the text of a string, or an integer digit for digit, of any length and never through a float (Domain.md,
    /// "Glossary").
    package func digits(_ key: String) throws(JSONError) -> String? {
        guard let range = present(key) else { return nil }
        if bytes[range.lowerBound] == UInt8(ascii: "\"") {
            return JSONString.decoded(bytes, (range.lowerBound + 1)..<(range.upperBound - 1))
        }
        guard isInteger(range) else { throw JSONError(.notAnIdentifier, at: range.lowerBound) }
        return String(decoding: bytes[range], as: UTF8.self)
    }

    package func bool(_ key: String) throws(JSONError) -> Bool? {
        guard let range = present(key) else { return nil }
        switch bytes[range.lowerBound] {
        case UInt8(ascii: "t"): return true
        case UInt8(ascii: "f"): return false
        default: throw JSONError(.notABoolean, at: range.lowerBound)
        }
    }

    package func object(_ key: String) throws(JSONError) -> JSONObject? {
        guard let range = present(key) else { return nil }
        return try JSONScan.nestedObject(bytes, at: range.lowerBound)
    }

    /// The objects among the elements of an array, in their order.
    package func objects(_ key: String) throws(JSONError) -> [JSONObject] {
        var objects: [JSONObject] = []
        for element in try elements(key) where bytes[element.lowerBound] == UInt8(ascii: "{") {
            objects.append(try JSONScan.nestedObject(bytes, at: element.lowerBound))
        }
        return objects
    }

    /// The ids among the elements of an array, in their order: texts, and integers digit for digit.
    package func texts(_ key: String) throws(JSONError) -> [String] {
        try elements(key).compactMap { element in
            if bytes[element.lowerBound] == UInt8(ascii: "\"") {
                return JSONString.decoded(bytes, (element.lowerBound + 1)..<(element.upperBound - 1))
            }
            return isInteger(element) ? String(decoding: bytes[element], as: UTF8.self) : nil
        }
    }

    /// The number of elements of an array, whatever they are; 0 where it is absent or null.
    package func elementCount(_ key: String) throws(JSONError) -> Int { try elements(key).count }

    private func elements(_ key: String) throws(JSONError) -> [Range<Int>] {
        guard let range = present(key) else { return [] }
        guard bytes[range.lowerBound] == UInt8(ascii: "[") else { throw JSONError(.notAnArray, at: range.lowerBound) }
        return try JSONScan.nestedElements(bytes, at: range.lowerBound)
    }

    /// The position of a value that is not null.
    private func present(_ key: String) -> Range<Int>? {
        guard let range = rawRange(key), bytes[range.lowerBound] != UInt8(ascii: "n") else { return nil }
        return range
    }

    private func isInteger(_ range: Range<Int>) -> Bool {
        let digits = bytes[range.lowerBound] == UInt8(ascii: "-") ? range.dropFirst() : range
        return !digits.isEmpty && digits.allSatisfy { JSONToken.isDigit(bytes[$0]) }
    }
}
