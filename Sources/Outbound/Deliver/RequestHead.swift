import NIOCore
package import Vocabulary

/// A header that no request can carry.
package struct UnsendableHeader: Error, Sendable, Equatable {
    /// Names the header, never its value.
    package let reason: String
}

/// The head of every request to one endpoint. The constant part is rendered once; the rest is checked byte by byte as
/// it is written, so that no value can end its line (RFC 9110 §5.5, RFC 9112 §2.2).
package struct RequestHead: Sendable {
    private let fixed: [UInt8]

    /// `headers` are the integration's own; they may replace `user-agent`, `accept` and `content-type`.
    package init(
        endpoint: EndpointURL, userAgent: String, headers: [Integration.Header] = []
    ) throws(UnsendableHeader) {
        guard Self.isPrintable(endpoint.target), Self.isPrintable(endpoint.authority), endpoint.target.first == "/"
        else { throw UnsendableHeader(reason: "the url holds a blank, a control character or one beyond ASCII") }
        var out = ByteBuffer()
        out.writeString("POST \(endpoint.target) HTTP/1.1\r\nhost: \(endpoint.authority)\r\n")
        let own = headers.map { $0.name.lowercased() }
        for (name, value) in [("user-agent", userAgent), ("accept", "*/*"), ("content-type", "application/json")]
        where !own.contains(name) {
            try Self.write(name, Array(value.utf8), to: &out)
        }
        for header in headers {
            let name = header.name
            if let objection = Self.objection(toName: name) { throw UnsendableHeader(reason: objection) }
            try header.value.withBytes { (bytes) throws(UnsendableHeader) in try Self.write(name, bytes, to: &out) }
        }
        fixed = Array(out.readableBytesView)
    }

    /// Why an integration's `headers` may not contain this name; nil if they may. `check` uses it, too.
    package static func objection(toName name: String) -> String? {
        guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else { return "a header name that is not a token" }
        return reserved.contains(name.lowercased()) ? "header \(name) is set by the relay itself" : nil
    }

    /// Headers that frame the request, steer the connection or sign the message.
    private static let reserved: Set<String> = [
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
        "webhook-id", "webhook-timestamp", "webhook-signature",
    ]

    /// Renders one request's head, with room for `reserve` more bytes after it.
    func render(
        headers: [(String, String)], bodyBytes: Int, reserve: Int, allocator: ByteBufferAllocator
    ) throws(UnsendableHeader) -> ByteBuffer {
        var variable = 64
        for (name, value) in headers { variable += name.utf8.count + value.utf8.count + 4 }
        var out = allocator.buffer(capacity: fixed.count + variable + reserve)
        out.writeBytes(fixed)
        for (name, value) in headers { try Self.write(name, value.utf8, to: &out) }
        out.writeStaticString("content-length: ")
        out.writeString(String(bodyBytes))
        out.writeStaticString("\r\n\r\n")
        return out
    }

    private static func write(
        _ name: String, _ value: some Collection<UInt8>, to out: inout ByteBuffer
    ) throws(UnsendableHeader) {
        guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else {
            throw UnsendableHeader(reason: "a header name is not a token")
        }
        guard value.allSatisfy(isValueByte) else {
            throw UnsendableHeader(reason: "header \(name) holds a line break or another control character")
        }
        out.writeString(name)
        out.writeStaticString(": ")
        out.writeBytes(value)
        out.writeStaticString("\r\n")
    }

    private static func isValueByte(_ byte: UInt8) -> Bool { (byte >= 0x20 && byte != 0x7f) || byte == 0x09 }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: tokenMarks.contains(byte)
        }
    }

    private static let tokenMarks = Array("!#$%&'*+-.^_`|~".utf8)

    private static func isPrintable(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }
    }
}
