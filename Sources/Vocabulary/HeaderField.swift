/// A header field of an HTTP request. Its value may be secret.
package struct HeaderField: Sendable, Hashable {
    package let name: String
    package let value: Secret

    package init(name: String, value: Secret) {
        self.name = name
        self.value = value
    }

    /// Whether this is the name of a field: a token (RFC 9110 §5.6.2).
    package static func isName(_ name: String) -> Bool { !name.isEmpty && name.utf8.allSatisfy(isTokenByte) }

    /// Whether a value can be sent: neither CR nor LF nor another control character, so that it cannot end its line
    /// (RFC 9110 §5.5).
    package static func isValue(_ bytes: some Sequence<UInt8>) -> Bool {
        func isValueByte(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7f }
        // For other modules this is not specialised: byte by byte it took 3 % of the daemon's time.
        return bytes.withContiguousStorageIfAvailable { $0.allSatisfy(isValueByte) } ?? bytes.allSatisfy(isValueByte)
    }

    /// Whether the field frames the message or steers the connection (RFC 9110 §7.6.1, RFC 9112 §6): only the HTTP
    /// client writes it. `name` in lower case.
    package static func isFraming(_ name: String) -> Bool { framing.contains(name) }

    private static let framing: Set<String> = [
        "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    ]

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || tokenMarks.contains(byte)
    }

    private static let tokenMarks = Array("!#$%&'*+-.^_`|~".utf8)
}
