package import NIOCore
import NIOHTTP1

/// The head of a request, already checked against RFC 9112.
package struct IncomingHead: Sendable {
    /// As sent, case-sensitive. GET for a HEAD request: the HTTP server leaves out the body of the answer by itself.
    package let method: String
    /// The target up to the question mark, raw: nothing is decoded. Begins with "/" (or is "*", for OPTIONS).
    package let path: String
    /// What follows the question mark, raw; nil where there is none.
    package let query: String?
    private let headers: HTTPHeaders

    init(method: String, target: some StringProtocol, headers: HTTPHeaders) {
        self.method = method
        self.headers = headers
        if let mark = target.utf8.firstIndex(of: UInt8(ascii: "?")) {
            path = String(target[..<mark])
            query = String(target[target.utf8.index(after: mark)...])
        } else {
            path = String(target)
            query = nil
        }
    }

    /// A head without a connection, for the tests of handlers.
    package init(method: String, target: String, headers: [(String, String)] = []) {
        self.init(method: method, target: target, headers: HTTPHeaders(headers))
    }

    /// The first value of a field; the name may be in any case.
    package func first(_ name: String) -> String? { headers.first(name: name) }

    /// All values of a field in order, one for each occurrence; commas are not split.
    package func all(_ name: String) -> [String] { headers[name] }
}

/// A whole request.
package struct IncomingRequest: Sendable {
    package let head: IncomingHead
    /// Byte for byte as it came, chunking undone.
    package let body: [UInt8]
    /// When its first byte was read.
    package let startedAt: NIODeadline

    /// Time since `startedAt`.
    package var age: Duration { .nanoseconds((NIODeadline.now() - startedAt).nanoseconds) }
}
