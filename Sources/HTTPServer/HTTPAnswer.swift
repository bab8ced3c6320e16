import NIOCore
import NIOHTTP1

/// A complete answer; this HTTP server streams nothing.
package struct HTTPAnswer: Sendable {
    package var status: Int
    /// Without content-length, transfer-encoding and connection: the HTTP server sets them, and drops them if given.
    package var headers: [(String, String)]
    package var body: [UInt8]
    /// The connection ends with this answer.
    package var closes: Bool

    package init(status: Int, headers: [(String, String)] = [], body: [UInt8] = [], closes: Bool = false) {
        self.status = status
        self.headers = headers
        self.body = body
        self.closes = closes
    }

    /// Plain text; by custom it ends in a line feed, so that it reads well in a terminal.
    package static func text(_ status: Int, _ text: String, headers: [(String, String)] = []) -> HTTPAnswer {
        HTTPAnswer(
            status: status, headers: [("content-type", "text/plain; charset=utf-8")] + headers, body: Array(text.utf8))
    }

    package static func json(_ status: Int, _ body: [UInt8], headers: [(String, String)] = []) -> HTTPAnswer {
        HTTPAnswer(status: status, headers: [("content-type", "application/json")] + headers, body: body)
    }
}

/// How an answer is written: what the request and the connection's state decide.
struct AnswerStyle: Hashable {
    /// The request was HEAD: the body is left out.
    var omitsBody = false
    /// The client speaks HTTP/1.0 and needs a header to keep the connection.
    var isOldVersion = false
    var closes = false
}

extension HTTPAnswer {
    /// Whether the status has content. 204 and 304 have none, and 204 must not state a length (RFC 9110 section 8.6);
    /// 1xx are never answers here.
    private var hasContent: Bool { status != 204 && status != 304 }

    /// Writes the whole answer into one buffer: one write, one system call.
    func render(_ style: AnswerStyle, into buffer: inout ByteBuffer) {
        buffer.writeStaticString("HTTP/1.1 ")
        buffer.writeString(String(status))
        buffer.writeStaticString(" ")
        buffer.writeString(HTTPResponseStatus(statusCode: status).reasonPhrase)
        buffer.writeStaticString("\r\n")
        for (name, value) in headers where !Self.isFraming(name) {
            Self.write(name, into: &buffer)
            buffer.writeStaticString(": ")
            Self.write(value, into: &buffer)
            buffer.writeStaticString("\r\n")
        }
        if hasContent {
            buffer.writeStaticString("content-length: ")
            buffer.writeString(String(body.count))
            buffer.writeStaticString("\r\n")
        }
        if style.closes {
            buffer.writeStaticString("connection: close\r\n")
        } else if style.isOldVersion {
            buffer.writeStaticString("connection: keep-alive\r\n")
        }
        buffer.writeStaticString("\r\n")
        if hasContent, !style.omitsBody { buffer.writeBytes(body) }
    }

    /// An upper estimate of the rendered bytes, which spares the buffer from growing.
    func renderedBytesEstimate(_ style: AnswerStyle) -> Int {
        var bytes = 128
        for (name, value) in headers { bytes += name.utf8.count + value.utf8.count + 4 }
        return style.omitsBody ? bytes : bytes + body.count
    }

    private static func isFraming(_ name: String) -> Bool {
        switch name.utf8.count {
        case 10: name.lowercased() == "connection"
        case 14: name.lowercased() == "content-length"
        case 17: name.lowercased() == "transfer-encoding"
        default: false
        }
    }

    /// Replaces control characters by question marks: they could end the line and let a value write headers of its own.
    private static func write(_ text: String, into buffer: inout ByteBuffer) {
        if text.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) {
            buffer.writeBytes(text.utf8.map { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F ? UInt8(ascii: "?") : $0 })
        } else {
            buffer.writeString(text)
        }
    }
}

/// The answers that the HTTP server gives by itself.
extension HTTPAnswer {
    static func refusal(_ status: Int, _ text: String) -> HTTPAnswer {
        var answer = HTTPAnswer.text(status, text + "\n")
        answer.closes = true
        return answer
    }

    static let headTimeout = refusal(408, "the head of the request did not come in time")
    static let bodyTimeout = refusal(408, "the body of the request did not come in time")
    static let headTooLarge = refusal(431, "the head of the request is too large")
    /// Also for other versions: 505 is not used, because the parser reports it for a broken line, too.
    static let malformed = refusal(400, "this is not a request of HTTP/1.1")

    static func bodyTooLarge(bytesMax: Int) -> HTTPAnswer {
        refusal(413, "the body of a request may have at most \(bytesMax) bytes here")
    }

    static let bodiesTooMany: HTTPAnswer = {
        var answer = refusal(503, "too many unfinished requests, try again")
        answer.headers.append(("retry-after", "1"))
        return answer
    }()
}
