package import Vocabulary

/// A request to a server of a store. The one who has the HTTP client sends it (`OutgoingRequests`): Inbound itself
/// opens no connection.
package struct OutgoingRequest: Sendable {
    package enum Method: Sendable {
        case get
        case post
    }

    package let url: EndpointURL
    /// Whose it is: each source has connections of its own, so that the backlog of one does not hold up the others.
    package let source: String
    package let method: Method
    /// Whether the server may be at an address inside.
    package let allowsPrivateAddresses: Bool
    package let headers: [HeaderField]
    package let body: [UInt8]
    /// From the call to the last byte of the answer.
    package let timeout: Duration
    /// One that times out, and had less time than this after its wait for a connection, says nothing of the server
    /// (`OutgoingFailure.isOfServer`).
    package let fairTime: Duration
    /// Bytes of the answer's body that are read; of a longer one only the status is known.
    package let answerBytesMax: Int

    package init(
        _ url: EndpointURL, of source: String, method: Method = .get, allowsPrivateAddresses: Bool,
        headers: [HeaderField] = [], body: [UInt8] = [], timeout: Duration, fairTime: Duration = .zero,
        answerBytesMax: Int
    ) {
        self.url = url
        self.source = source
        self.method = method
        self.allowsPrivateAddresses = allowsPrivateAddresses
        self.headers = headers
        self.body = body
        self.timeout = timeout
        self.fairTime = fairTime
        self.answerBytesMax = answerBytesMax
    }
}

package struct OutgoingAnswer: Sendable {
    package let status: Int
    /// Nil: it was longer than the request allows.
    package let body: [UInt8]?
    /// The value of Cache-Control, as it came.
    package let cacheControl: String?

    package init(status: Int, body: [UInt8]?, cacheControl: String? = nil) {
        self.status = status
        self.body = body
        self.cacheControl = cacheControl
    }
}

/// Why a request brought no answer, for the journal: it names hosts, never a path, a header or a body.
package struct OutgoingFailure: Error, Sendable, Hashable {
    package let reason: String
    /// Whether a breaker counts it as the server's: all but where the request never got a connection, got it too late,
    /// or was given up here. A key or a file that must be mended counts, too: trying again at once gains nothing.
    package let isOfServer: Bool

    package init(_ reason: String, isOfServer: Bool) {
        self.reason = reason
        self.isOfServer = isOfServer
    }
}

/// Sends a request. Ends within its time-out.
package typealias OutgoingRequests = @Sendable (OutgoingRequest) async -> Result<OutgoingAnswer, OutgoingFailure>
