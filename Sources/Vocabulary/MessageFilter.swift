/// The `where` of an integration: what the fields of a message must be for it to be sent there (posthouse-messages(7),
/// "Filters"). It is read once, with the configuration.
package struct MessageFilter: Sendable, Hashable {
    package struct Condition: Sendable, Hashable {
        package let field: MessageField
        /// At least one; the field must match one of them.
        package let patterns: [FieldPattern]

        package init(_ field: MessageField, _ patterns: [FieldPattern]) {
            self.field = field
            self.patterns = patterns
        }
    }

    /// At least one; a message must meet all of them.
    package let conditions: [Condition]

    package init(_ conditions: [Condition]) { self.conditions = conditions }

    /// Whether a message meets all conditions.
    /// - Parameter text: the value of a field as the payload has it, of a number its digits; nil: it is null or absent,
    ///   and matches nothing. Asked for the fields of conditions alone.
    package func matches<Failure: Error>(
        _ text: (MessageField) throws(Failure) -> String?
    ) throws(Failure) -> Bool {
        for condition in conditions {
            guard let value = try text(condition.field) else { return false }
            guard condition.patterns.contains(where: { $0.matches(value) }) else { return false }
        }
        return true
    }
}

/// A pattern over the text of a field: `*` matches any run of characters, a backslash makes the `*` or the backslash
/// after it an ordinary character, and all else matches itself, byte for byte.
package struct FieldPattern: Sendable, Hashable {
    /// The bytes between the stars. A single piece: there is no star.
    private let pieces: [[UInt8]]

    /// Nil: a backslash has neither `*` nor a backslash after it.
    package init?(_ pattern: String) {
        var pieces: [[UInt8]] = []
        var piece: [UInt8] = []
        var isEscaped = false
        for byte in pattern.utf8 {
            switch byte {
            case UInt8(ascii: "*") where !isEscaped:
                pieces.append(piece)
                piece = []
            case UInt8(ascii: "\\") where !isEscaped:
                isEscaped = true
            default:
                if isEscaped, byte != UInt8(ascii: "*"), byte != UInt8(ascii: "\\") { return nil }
                piece.append(byte)
                isEscaped = false
            }
        }
        if isEscaped { return nil }
        self.pieces = pieces + [piece]
    }

    /// As the configuration may write it: equal patterns have the same text.
    package var text: String {
        let escaped = pieces.map { piece -> String in
            let bytes = piece.flatMap { byte -> [UInt8] in
                let isSpecial = byte == UInt8(ascii: "*") || byte == UInt8(ascii: "\\")
                return isSpecial ? [UInt8(ascii: "\\"), byte] : [byte]
            }
            return String(decoding: bytes, as: UTF8.self)
        }
        return escaped.joined(separator: "*")
    }

    /// Matches the digits of this number alone.
    package init(_ number: Int) { pieces = [Array(String(number).utf8)] }

    /// At most pattern × text steps: each piece between two stars is taken where it first occurs, and nothing recurses.
    package func matches(_ text: String) -> Bool {
        let text = Array(text.utf8)
        guard pieces.count > 1, let first = pieces.first, let last = pieces.last else { return text == pieces.first }
        guard text.count >= first.count + last.count, text.starts(with: first) else { return false }
        let end = text.count - last.count
        guard text[end...].elementsEqual(last) else { return false }
        var rest = text[first.count..<end]
        for piece in pieces.dropFirst().dropLast() {
            guard let start = Self.position(of: piece, in: rest) else { return false }
            rest = rest[(start + piece.count)...]
        }
        return true
    }

    /// Where `piece` first occurs.
    private static func position(of piece: [UInt8], in text: ArraySlice<UInt8>) -> Int? {
        guard piece.count <= text.count else { return nil }
        return (text.startIndex...(text.endIndex - piece.count)).first { text[$0...].starts(with: piece) }
    }
}
