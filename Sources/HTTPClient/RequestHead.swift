import NIOCore
package import Vocabulary

/// The head of requests to one URL. The constant part is rendered once; the rest is checked byte by byte as it is
/// written, so that no value can end its line (RFC 9110 §5.5, RFC 9112 §2.2).
package struct RequestHead: Sendable {
    package enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
    }

    let endpoint: EndpointURL
    private let method: Method
    private let fixed: [UInt8]

    /// `headers` may replace `user-agent`, `accept: */*` and a POST's `content-type: application/json`; those that
    /// frame the message (`HeaderField.isFraming`) are refused.
    package init(
        _ method: Method, _ endpoint: EndpointURL, userAgent: String, headers: [HeaderField] = []
    ) throws(UnsendableRequest) {
        guard Self.isPrintable(endpoint.target), Self.isPrintable(endpoint.authority), endpoint.target.first == "/"
        else { throw UnsendableRequest(reason: "the url holds a blank, a control character or one beyond ASCII") }
        var out = ByteBuffer()
        out.writeString("\(method.rawValue) \(endpoint.target) HTTP/1.1\r\nhost: \(endpoint.authority)\r\n")
        let own = headers.map { $0.name.lowercased() }
        var standard = [("user-agent", userAgent), ("accept", "*/*")]
        if method == .post { standard.append(("content-type", "application/json")) }
        for (name, value) in standard where !own.contains(name) { try Self.write(name, value.utf8, to: &out) }
        for header in headers {
            let name = header.name
            if HeaderField.isFraming(name.lowercased()) {
                throw UnsendableRequest(reason: "header \(name) is set by the relay itself")
            }
            try header.value.withBytes { (bytes) throws(UnsendableRequest) in try Self.write(name, bytes, to: &out) }
        }
        self.endpoint = endpoint
        self.method = method
        fixed = Array(out.readableBytesView)
    }

    /// Renders one request's head, with room for `reserve` more bytes after it.
    func render(
        headers: [(String, String)], bodyBytes: Int, reserve: Int, allocator: ByteBufferAllocator
    ) throws(UnsendableRequest) -> ByteBuffer {
        var variable = 64
        for (name, value) in headers { variable += name.utf8.count + value.utf8.count + 4 }
        var out = allocator.buffer(capacity: fixed.count + variable + reserve)
        out.writeBytes(fixed)
        for (name, value) in headers { try Self.write(name, value.utf8, to: &out) }
        // A GET without content says nothing of its length (RFC 9110 §8.6).
        if method == .post || bodyBytes > 0 {
            out.writeStaticString("content-length: ")
            out.writeString(String(bodyBytes))
            out.writeStaticString("\r\n")
        }
        out.writeStaticString("\r\n")
        return out
    }

    private static func write(
        _ name: String, _ value: some Collection<UInt8>, to out: inout ByteBuffer
    ) throws(UnsendableRequest) {
        guard HeaderField.isName(name) else {
            throw UnsendableRequest(reason: "a header name is not a token")
        }
        guard HeaderField.isValue(value) else {
            throw UnsendableRequest(reason: "header \(name) holds a line break or another control character")
        }
        out.writeString(name)
        out.writeStaticString(": ")
        out.writeBytes(value)
        out.writeStaticString("\r\n")
    }

    private static func isPrintable(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }
    }
}
