internal import Crypto
package import Vocabulary

/// A purchase token: Google's name of one purchase of one plan. It lives through renewals, grace, hold and pause; a
/// change of plan makes a new one.
///
/// Together with access to the developer's account it opens the purchase, so it is whole only in bodies and answers as
/// they came. Tables, the journal, errors and the fields of messages have its `name`. Printing or interpolating a token
/// shows the name, too.
package struct GooglePlayToken: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Characters of a token that its name shows; Google's tokens have 150 and more.
    private static let shownMax = 12
    /// The part of a shorter token that its name shows.
    private static let shownFraction = 4

    private let text: String
    /// The first 16 bytes of SHA-256 over the token's UTF-8.
    package let id: Identifier
    /// The first 12 characters of the token (of one with fewer than 48, a quarter), a dot, and `id` as 32 lower-case
    /// hex digits. An app's backend can make it of the token: it is the purchase key and the anonymous holder's id.
    package let name: String

    package init(_ text: String) {
        let id = Identifier(bytes: SHA256.hash(data: Array(text.utf8)))
        let scalars = text.unicodeScalars
        let shown = scalars.prefix(min(Self.shownMax, scalars.count / Self.shownFraction))
        self.text = text
        self.id = id
        name = "\(String(String.UnicodeScalarView(shown))).\(id.hex)"
    }

    /// The whole token as one segment of a URL's path (RFC 3986 section 3.3), for the request to Google alone.
    package var pathSegment: String { Self.pathSegment(text) }

    package var description: String { name }
    package var debugDescription: String { name }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }

    /// The id in a name; nil where the text is none.
    static func id(ofName name: String) -> Identifier? {
        guard let dot = name.utf8.lastIndex(of: UInt8(ascii: ".")) else { return nil }
        return Identifier(hex: name[name.utf8.index(after: dot)...])
    }

    /// `text` with every byte escaped that is not unreserved (RFC 3986 section 2.3).
    static func pathSegment(_ text: String) -> String {
        var out: [UInt8] = []
        for byte in text.utf8 {
            if byte.isASCIIAlphanumeric || "-._~".utf8.contains(byte) {
                out.append(byte)
            } else {
                out.append(UInt8(ascii: "%"))
                out.append(contentsOf: Identifier.hex(of: [byte]).uppercased().utf8)
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}

/// Compares by `id`: as good as byte by byte.
extension GooglePlayToken: Hashable {
    package static func == (left: GooglePlayToken, right: GooglePlayToken) -> Bool { left.id == right.id }

    package func hash(into hasher: inout Hasher) { hasher.combine(id) }
}
