import NIOCore
import Vocabulary

/// One request on its way to one answer. Lives on the client's event loop.
final class Exchange {
    /// The head, followed by the body if that is small.
    let head: ByteBuffer
    let body: [ByteBuffer]
    private let answerBytesMax: Int
    private let keptBytesMax: Int
    private let fairTime: TimeAmount
    /// Covers everything from the call to the last byte of the answer.
    let deadline: NIODeadline
    /// The stage while it has no connection yet.
    var stage: RequestStage = .waiting
    /// It was sent again after a kept-alive connection turned out to be dead; that happens at most once.
    var isRepeated = false
    /// Watches the deadline until a connection does.
    var timer: Scheduled<Void>?
    var dial: Dial?
    /// When it stopped waiting: it got a connection, or one was being opened for it.
    private var began: NIODeadline?
    /// Whether it ends with the TLS handshake: no byte of a request is sent.
    let isHandshakeOnly: Bool
    /// When the server's certificate ends, once the handshake is done; of no other exchange.
    var certificateEnd: Timestamp?
    private var completion: ((Result<EndpointAnswer, RequestFailure>) -> Void)?

    /// A handshake alone.
    init(handshakeBy deadline: NIODeadline) {
        (head, body) = (ByteBuffer(), [])
        (answerBytesMax, keptBytesMax) = (0, 0)
        fairTime = .zero
        isHandshakeOnly = true
        self.deadline = deadline
    }

    /// Calls `completion` with the end of the server's certificate.
    func report(certificateEndTo completion: @escaping (Result<Timestamp, RequestFailure>) -> Void) {
        self.completion = { [unowned self] result in
            switch (result, self.certificateEnd) {
            case (.failure(let failure), _): completion(.failure(failure))
            case (.success, let end?): completion(.success(end))
            case (.success, nil): completion(.failure(.tlsFailed("the server showed no certificate")))
            }
        }
    }

    init(
        _ request: EndpointRequest, head: ByteBuffer, body: [ByteBuffer], deadline: NIODeadline,
        completion: @escaping (Result<EndpointAnswer, RequestFailure>) -> Void
    ) {
        self.head = head
        self.body = body
        answerBytesMax = request.answerBytesMax
        keptBytesMax = request.keptBytesMax
        fairTime = TimeAmount(request.fairTime)
        self.deadline = deadline
        isHandshakeOnly = false
        self.completion = completion
    }

    /// Reads the answer within the limits of the request.
    func reader() -> AnswerReader { AnswerReader(bodyBytesMax: answerBytesMax, keptBytesMax: keptBytesMax) }

    /// Calls back on the first call; later calls do nothing.
    func finish(_ result: Result<EndpointAnswer, RequestFailure>) {
        guard let completion else { return }
        self.completion = nil
        placed()
        completion(hasWaitedTooLong(result) ? .failure(.timedOut(.waiting)) : result)
    }

    /// Called when it waits no longer; later calls, as of a repetition, do nothing.
    func begin(now: NIODeadline) { began = began ?? now }

    /// Whether it timed out because the wait for a connection left too little of its time.
    private func hasWaitedTooLong(_ result: Result<EndpointAnswer, RequestFailure>) -> Bool {
        guard case .failure(.timedOut) = result, let began else { return false }
        return deadline - began < fairTime
    }

    /// Stops watching the deadline: from here on the connection does, or nothing is left to watch.
    func placed() {
        timer?.cancel()
        timer = nil
        dial = nil
    }
}
