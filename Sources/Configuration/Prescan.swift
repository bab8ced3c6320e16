/// Finds, before the parser sees a file, input that toml++ 3.3 does not survive.
///
/// toml++ bounds how deep arrays and inline tables nest, but not how many parts a dotted key has: `[a.a.a…]` of a
/// mebibyte makes half a million tables inside one another, and freeing those overruns the stack. It also asserts that
/// no closing bracket lacks its opening one, which `[}` violates.
struct Prescan {
    private enum Place {
        case code
        case comment
        case string(quote: UInt8, isMultiline: Bool)
    }

    private let bytes: [UInt8]
    private var index = 0
    private var place = Place.code
    private var line = 1
    private var column = 0
    private var dots = 0
    private var open: [UInt8] = []

    /// The first fault; nil for every TOML document that keeps the limits. Text that is not TOML may be misread, but
    /// only after the place where a parser would stop.
    static func fault(in bytes: [UInt8]) -> TomlError? {
        var scan = Prescan(bytes)
        while let byte = scan.next() {
            if let fault = scan.take(byte) { return fault }
        }
        return nil
    }

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    private mutating func next() -> UInt8? {
        guard index < bytes.count else { return nil }
        let byte = bytes[index]
        index += 1
        // A column is a Unicode scalar: bytes that continue one do not count.
        if byte & 0xC0 != 0x80 { column += 1 }
        return byte
    }

    private mutating func take(_ byte: UInt8) -> TomlError? {
        if byte == UInt8(ascii: "\n") {
            newline()
            return nil
        }
        switch place {
        case .comment: return nil
        case .code: return takeCode(byte)
        case .string(let quote, let isMultiline):
            takeString(byte, quote: quote, isMultiline: isMultiline)
            return nil
        }
    }

    private mutating func newline() {
        line += 1
        column = 0
        // Neither a key nor a table's header spans lines, so the dots of a line bound the depth of each.
        dots = 0
        if case .string(_, isMultiline: true) = place { return }
        place = .code
    }

    private mutating func takeCode(_ byte: UInt8) -> TomlError? {
        switch byte {
        case UInt8(ascii: "#"): place = .comment
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            // One more quote is an empty string, two more begin a text of several lines.
            let more = skip(byte, upTo: 2)
            if more != 1 { place = .string(quote: byte, isMultiline: more == 2) }
        case UInt8(ascii: "."):
            dots += 1
            if dots > ConfigurationLimits.dotsOfLineMax {
                return fault("more than \(ConfigurationLimits.dotsOfLineMax) dots outside strings in one line")
            }
        case UInt8(ascii: "["), UInt8(ascii: "{"):
            open.append(byte)
            if open.count > ConfigurationLimits.nestingMax { return fault("brackets are nested too deep") }
        case UInt8(ascii: "]"), UInt8(ascii: "}"):
            // The ASCII code of a closing bracket is that of its opening one plus two.
            guard open.popLast() == byte - 2 else {
                return fault("`\(Unicode.Scalar(byte))` closes no bracket that is open here")
            }
        default: break
        }
        return nil
    }

    private mutating func takeString(_ byte: UInt8, quote: UInt8, isMultiline: Bool) {
        if byte == UInt8(ascii: "\\"), quote == UInt8(ascii: "\"") {
            // An escaped character does not end the string; an escaped newline still counts as one.
            if index < bytes.count, bytes[index] != UInt8(ascii: "\n") { _ = next() }
        } else if byte == quote {
            guard isMultiline else {
                place = .code
                return
            }
            // Three end it; up to two more before them belong to the text: `"""a"""""`.
            if skip(quote, upTo: 4) >= 2 { place = .code }
        }
    }

    /// Skips at most `limit` of this byte, and returns how many there were.
    private mutating func skip(_ byte: UInt8, upTo limit: Int) -> Int {
        var count = 0
        while count < limit, index < bytes.count, bytes[index] == byte {
            _ = next()
            count += 1
        }
        return count
    }

    private func fault(_ message: String) -> TomlError {
        TomlError(message: message, span: Span(line: line, column: column))
    }
}
