/// Guards the parser's stack. toml++ bounds how deep arrays and inline tables nest, but not how many parts a dotted key
/// has: `[a.a.a…]` of a mebibyte makes half a million tables inside one another, and freeing those recurses.
enum DottedKeys {
    private enum Place {
        case code
        case comment
        case string(quote: UInt8, isMultiline: Bool)
    }

    /// The number of the first line with more than `dotsMax` dots outside strings and comments; nil where none has.
    ///
    /// A dotted key cannot span lines, so the dots of a line bound its depth. What is not TOML may be counted wrongly,
    /// but only behind the place where the parser stops.
    static func firstLineTooDeep(_ bytes: [UInt8], dotsMax: Int) -> Int? {
        var place = Place.code
        var line = 1
        var dots = 0
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            if byte == UInt8(ascii: "\n") {
                line += 1
                dots = 0
                if case .string(_, isMultiline: true) = place { continue }
                place = .code
                continue
            }
            switch place {
            case .comment: break
            case .code:
                if byte == UInt8(ascii: ".") {
                    dots += 1
                    if dots > dotsMax { return line }
                } else if byte == UInt8(ascii: "#") {
                    place = .comment
                } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                    let isMultiline = isRun(of: byte, count: 2, in: bytes, at: index)
                    if isMultiline { index += 2 }
                    place = .string(quote: byte, isMultiline: isMultiline)
                }
            case .string(let quote, let isMultiline):
                if byte == UInt8(ascii: "\\"), quote == UInt8(ascii: "\""), index < bytes.count,
                    bytes[index] != UInt8(ascii: "\n")
                {
                    index += 1
                } else if byte == quote {
                    if !isMultiline {
                        place = .code
                    } else if isRun(of: quote, count: 2, in: bytes, at: index) {
                        index += 2
                        // Up to two more quotes belong to the string: `"""a"""""`.
                        for _ in 0..<2 where index < bytes.count && bytes[index] == quote { index += 1 }
                        place = .code
                    }
                }
            }
        }
        return nil
    }

    private static func isRun(of byte: UInt8, count: Int, in bytes: [UInt8], at index: Int) -> Bool {
        index + count <= bytes.count && bytes[index..<(index + count)].allSatisfy { $0 == byte }
    }
}
