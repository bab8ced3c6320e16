internal import Vocabulary

/// Percent-encoding (RFC 3986 section 2.1), read strictly: the meaning of a stray percent sign or of invalid UTF-8
/// would have to be guessed, and ids are compared byte by byte.
enum PercentText {
    enum Fault: Error, CustomStringConvertible {
        case malformed
        case notUTF8
        case nul

        var description: String {
            switch self {
            case .malformed: "a percent sign is not followed by two hex digits"
            case .notUTF8: "it is not valid UTF-8"
            case .nul: "it contains NUL"
            }
        }
    }

    /// - Parameter plusIsSpace: true for a query, as forms write it; in a path a plus sign is literal.
    static func decode(_ text: some StringProtocol, plusIsSpace: Bool) throws(Fault) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(Identifier.value(ofHexDigit:)),
                    let low = rest.popFirst().flatMap(Identifier.value(ofHexDigit:))
                else { throw .malformed }
                bytes.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            default: bytes.append(byte)
            }
        }
        if bytes.contains(0) { throw .nul }
        guard let decoded = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
        return decoded
    }
}
