import NIOCore

/// What a listener does with its requests: two callbacks on the connection's event loop, which must not block.
package protocol FrontHandler: Sendable {
    /// Decides on the head alone, before anything of the body is kept.
    func admit(_ head: FrontHead) -> Admission

    /// The whole request. `responder` may be called at once or later, from any thread.
    func respond(to request: FrontRequest, with responder: Responder)

    /// The front turned a request away by itself (400, 408, 413, 431, 503 …) or gave the time-out answer. For counting
    /// and telling only; `head` is nil where none could be read.
    func turnedAway(_ head: FrontHead?, status: Int, reason: String)
}

extension FrontHandler {
    package func turnedAway(_ head: FrontHead?, status: Int, reason: String) {}
}

/// What a handler says to a head.
package enum Admission: Sendable {
    /// Answered without a look at the body. The connection is kept if there is no body or a small one.
    case refuse(FrontAnswer)
    /// `answerTimeout` counts from the first byte of the request; when it has passed, `timeoutAnswer` is sent and an
    /// answer that comes later is dropped.
    case accept(bodyBytesMax: Int, answerTimeout: Duration, timeoutAnswer: FrontAnswer)
}

/// The way back to one request. The first answer counts, and only while the request still waits for one.
package struct Responder: Sendable {
    private let connection: NIOLoopBound<FrontConnection>
    private let loop: any EventLoop
    private let sequence: UInt64

    init(_ connection: FrontConnection, on loop: any EventLoop, sequence: UInt64) {
        self.connection = NIOLoopBound(connection, eventLoop: loop)
        self.loop = loop
        self.sequence = sequence
    }

    /// From the connection's own loop the answer is written before this returns; from elsewhere it is handed over.
    package func respond(_ answer: FrontAnswer) {
        if loop.inEventLoop {
            connection.value.answer(answer, to: sequence)
        } else {
            loop.execute { [connection, sequence] in connection.value.answer(answer, to: sequence) }
        }
    }
}
