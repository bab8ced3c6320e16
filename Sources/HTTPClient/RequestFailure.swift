/// How far a request had come.
package enum RequestStage: String, Sendable, CaseIterable {
    /// Waits for a connection: all that the client may have are busy. Of a time-out also: it got one too late
    /// (`EndpointRequest.fairTime`).
    case waiting
    case resolving
    case connecting
    case handshaking
    /// The server has not taken all of the request.
    case sending
    /// The request is sent: the server may have acted on it.
    case head
    case body

    /// After "timed out" or "the connection was lost".
    package var phrase: String {
        switch self {
        case .waiting: "while it waited for a free connection"
        case .resolving: "while the host name was looked up"
        case .connecting: "while connecting"
        case .handshaking: "during the TLS handshake"
        case .sending: "while the request was being sent"
        case .head: "before an answer came"
        case .body: "in the body of the answer"
        }
    }
}

/// Why a request brought no answer, by stage. No case carries a header value, a body or user information.
package enum RequestFailure: Error, Sendable, Equatable {
    /// The egress guard left no address of the host.
    case refusedAddress(String)
    case unresolvable(String)
    case connectFailed(String)
    case tlsFailed(String)
    case timedOut(RequestStage)
    case connectionLost(RequestStage)
    case malformedAnswer(String)
    /// The request cannot be made: it is for another host, no HTTP request can carry one of its headers, or it cannot
    /// be signed.
    case unsendable(String)
    /// This process has no file descriptor to spare for a connection; the server is not to blame.
    case shortage(String)
    /// This daemon gave the request up; the server is not to blame.
    case cancelled

    /// The server was not even asked, because this machine lacks something.
    package var isOfThisMachine: Bool {
        if case .shortage = self { true } else { false }
    }

    /// Whether it says something of the server: not where the request waited for a connection to the end, or for so
    /// long that the server had too little time (`EndpointRequest.fairTime`), where this machine could open none, or
    /// where this daemon gave it up.
    package var isOfServer: Bool {
        switch self {
        case .timedOut(.waiting), .shortage, .cancelled: false
        default: true
        }
    }

    /// One line for the journal.
    package var explanation: String {
        switch self {
        case .refusedAddress(let what): "refused by the egress guard: \(what)"
        case .unresolvable(let what): "the host name cannot be resolved: \(what)"
        case .connectFailed(let what): "cannot connect: \(what)"
        case .tlsFailed(let what): "TLS failed: \(what)"
        case .timedOut(let stage): "timed out \(stage.phrase)"
        case .connectionLost(let stage): "the connection was lost \(stage.phrase)"
        case .malformedAnswer(let what): "the answer is malformed: \(what)"
        case .unsendable(let what): "the request cannot be sent: \(what)"
        case .shortage(let what): "too few file descriptors are left to connect: \(what)"
        case .cancelled: "cut off by this daemon"
        }
    }
}

/// Why a request cannot be written.
package struct UnsendableRequest: Error, Sendable, Equatable {
    /// Names the header, never its value.
    package let reason: String
}
