/// Vendors' ids and receivers' answers may hold anything. Where a person or a line-based tool reads them, whatever
/// could end the line, move the cursor or turn the writing direction becomes visible text instead.
package enum PlainText {
    /// `text` with each unsafe character written as `\n`, `\r`, `\t` or `\u{…}`.
    package static func harmless(_ text: String) -> String {
        if isPrintableASCII(text) { return text }
        var out = ""
        for scalar in text.unicodeScalars {
            if isUnsafe(scalar) { out += escape(scalar) } else { out.unicodeScalars.append(scalar) }
        }
        return out
    }

    /// A logfmt value: bare where that reads back as itself, else in double quotes with `"` and `\` escaped.
    static func logfmtValue(_ text: String) -> String {
        let isBare =
            !text.isEmpty
            && text.unicodeScalars.allSatisfy { scalar in
                scalar != " " && scalar != "\"" && scalar != "=" && scalar != "\\" && !isUnsafe(scalar)
            }
        if isBare { return text }
        var out = "\""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" {
                out += "\\"
                out.unicodeScalars.append(scalar)
            } else if isUnsafe(scalar) {
                out += escape(scalar)
            } else {
                out.unicodeScalars.append(scalar)
            }
        }
        return out + "\""
    }

    /// A JSON string with its quotes (RFC 8259 §7). Unsafe characters are written as `\uXXXX`, of which a reader makes
    /// the character again.
    static func jsonString(_ text: String) -> String {
        if isPrintableASCII(text, but: UInt8(ascii: "\""), UInt8(ascii: "\\")) { return "\"\(text)\"" }
        var out = "\""
        for scalar in text.unicodeScalars {
            if scalar == "\"" || scalar == "\\" {
                out += "\\"
                out.unicodeScalars.append(scalar)
            } else if isUnsafe(scalar) {
                out += jsonEscape(scalar)
            } else {
                out.unicodeScalars.append(scalar)
            }
        }
        return out + "\""
    }

    /// A JSON text for a terminal, with the same values: unsafe characters in its strings are written as in
    /// `jsonString`, line ends and tabs between its tokens as spaces.
    package static func harmlessJSON(_ text: String) -> String {
        if isPrintableASCII(text) { return text }
        var out = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            // In a string of JSON they are escaped already (RFC 8259 §7).
            case "\n", "\r", "\t": out += " "
            default:
                if isUnsafe(scalar) { out += jsonEscape(scalar) } else { out.unicodeScalars.append(scalar) }
            }
        }
        return out
    }

    private static func jsonEscape(_ scalar: Unicode.Scalar) -> String {
        (UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter).map { unit -> String in
            let digits = String(unit, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
        }.joined()
    }

    /// Nearly all texts are, and bytes are looked at faster than scalars.
    private static func isPrintableASCII(_ text: String, but first: UInt8 = 0, _ second: UInt8 = 0) -> Bool {
        text.utf8.allSatisfy { (0x20...0x7E).contains($0) && $0 != first && $0 != second }
    }

    private static func escape(_ scalar: Unicode.Scalar) -> String {
        switch scalar {
        case "\n": "\\n"
        case "\r": "\\r"
        case "\t": "\\t"
        default: "\\u{" + String(scalar.value, radix: 16) + "}"
        }
    }

    /// Controls (terminal escapes begin with one), line and paragraph separators, and the format characters, among
    /// them the bidirectional overrides (Unicode Technical Report 36, "Bidirectional Text Spoofing").
    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        if (0x20...0x7E).contains(scalar.value) { return false }
        return switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .format: true
        default: false
        }
    }
}
