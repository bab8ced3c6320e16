import NIOCore

/// Handles the requests of a listener. Its methods are called on the connection's event loop and must not block.
package protocol IncomingHandler: Sendable {
    /// Decides on the head alone, before anything of the body is kept.
    func admit(_ head: IncomingHead) -> Admission

    /// Answers the whole request. `responder` may be called at once or later, from any thread.
    func respond(to request: IncomingRequest, with responder: Responder)

    /// The HTTP server rejected a request by itself (400, 408, 413, 431, 503 …) or gave the time-out answer. For
    /// counting and logging only; `head` is nil if none could be read or the handler had refused it already.
    func rejected(_ head: IncomingHead?, status: Int, reason: String)
}

extension IncomingHandler {
    package func rejected(_ head: IncomingHead?, status: Int, reason: String) {}
}

/// A handler's decision on a head.
package enum Admission: Sendable {
    /// Answered whatever the body holds. The connection is kept if there is no body or a small one.
    case refuse(HTTPAnswer)
    /// `answerTimeout` counts from the first byte of the request; when it has passed, `timeoutAnswer` is sent and an
    /// answer that comes later is dropped.
    case accept(bodyBytesMax: Int, answerTimeout: Duration, timeoutAnswer: HTTPAnswer)
}

/// Answers one request. The first answer counts, and only while the request still waits for one.
package struct Responder: Sendable {
    private let connection: NIOLoopBound<IncomingConnection>
    private let loop: any EventLoop
    private let sequence: UInt64

    init(_ connection: IncomingConnection, on loop: any EventLoop, sequence: UInt64) {
        self.connection = NIOLoopBound(connection, eventLoop: loop)
        self.loop = loop
        self.sequence = sequence
    }

    /// On the connection's own loop the answer is written before this returns; otherwise it is submitted to that loop.
    package func respond(_ answer: HTTPAnswer) {
        if loop.inEventLoop {
            connection.value.answer(answer, to: sequence)
        } else {
            loop.execute { [connection, sequence] in connection.value.answer(answer, to: sequence) }
        }
    }
}
