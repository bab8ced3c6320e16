import NIOCore

/// Handles the requests of a listener. Its methods are called on the connection's event loop and must not block.
package protocol FrontHandler: Sendable {
    /// Decides on the head alone, before anything of the body is kept.
    func admit(_ head: FrontHead) -> Admission

    /// Answers the whole request. `responder` may be called at once or later, from any thread.
    func respond(to request: FrontRequest, with responder: Responder)

    /// The HTTP server rejected a request by itself (400, 408, 413, 431, 503 …) or gave the time-out answer. For
    /// counting and logging only; `head` is nil if none could be read or the handler had refused it already.
    func turnedAway(_ head: FrontHead?, status: Int, reason: String)
}

extension FrontHandler {
    package func turnedAway(_ head: FrontHead?, status: Int, reason: String) {}
}

/// A handler's decision on a head.
package enum Admission: Sendable {
    /// Answered whatever the body holds. The connection is kept if there is no body or a small one.
    case refuse(FrontAnswer)
    /// `answerTimeout` counts from the first byte of the request; when it has passed, `timeoutAnswer` is sent and an
    /// answer that comes later is dropped.
    case accept(bodyBytesMax: Int, answerTimeout: Duration, timeoutAnswer: FrontAnswer)
}

/// Answers one request. The first answer counts, and only while the request still waits for one.
package struct Responder: Sendable {
    private let connection: NIOLoopBound<FrontConnection>
    private let loop: any EventLoop
    private let sequence: UInt64

    init(_ connection: FrontConnection, on loop: any EventLoop, sequence: UInt64) {
        self.connection = NIOLoopBound(connection, eventLoop: loop)
        self.loop = loop
        self.sequence = sequence
    }

    /// On the connection's own loop the answer is written before this returns; otherwise it is submitted to that loop.
    package func respond(_ answer: FrontAnswer) {
        if loop.inEventLoop {
            connection.value.answer(answer, to: sequence)
        } else {
            loop.execute { [connection, sequence] in connection.value.answer(answer, to: sequence) }
        }
    }
}
