package import NIOCore
import NIOHTTP1
import Vocabulary

/// The head of a request, already checked against RFC 9112.
package struct IncomingHead: Sendable {
    /// As sent, case-sensitive. GET for a HEAD request: the HTTP server leaves out the body of the answer by itself.
    package let method: String
    /// The target up to the question mark, raw: nothing is decoded. Begins with "/" (or is "*", for OPTIONS).
    package let path: String
    /// What follows the question mark, raw; nil where there is none.
    package let query: String?
    private let fields: Fields

    private enum Fields {
        case decoded(HTTPHeaders)
        /// Of a `WholeRequest`.
        case inPlace(head: [UInt8], [FieldLine])
    }

    init(method: String, target: some StringProtocol, headers: HTTPHeaders) {
        self.init(method: method, target: target, fields: .decoded(headers))
    }

    init(_ request: WholeRequest) {
        self.init(method: "POST", target: request.target, fields: .inPlace(head: request.head, request.fields))
    }

    private init(method: String, target: some StringProtocol, fields: Fields) {
        self.method = method
        self.fields = fields
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
    package func first(_ name: String) -> String? {
        switch fields {
        case .decoded(let headers): headers.first(name: name)
        case .inPlace(let head, let lines):
            lines.first { Self.isSame(head[$0.name], name) }.map { String(decoding: head[$0.value], as: UTF8.self) }
        }
    }

    /// All values of a field in order, one for each occurrence; commas are not split.
    package func all(_ name: String) -> [String] {
        switch fields {
        case .decoded(let headers): headers[name]
        case .inPlace(let head, let lines):
            lines.filter { Self.isSame(head[$0.name], name) }.map { String(decoding: head[$0.value], as: UTF8.self) }
        }
    }

    private static func isSame(_ field: ArraySlice<UInt8>, _ name: String) -> Bool {
        field.count == name.utf8.count
            && zip(field, name.utf8).allSatisfy { $0.asciiLowercased == $1.asciiLowercased }
    }
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
