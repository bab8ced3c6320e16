import NIOCore

/// One request on its way to one answer. Lives on the client's event loop.
final class Exchange {
    /// The head, and the body behind it where it is small.
    let head: ByteBuffer
    let body: [ByteBuffer]
    /// Covers everything from the call to the last byte of the answer.
    let deadline: NIODeadline
    /// How far it is while it has no connection yet.
    var stage: DeliveryStage = .waiting
    /// It was sent again after a kept-alive connection turned out to be dead; that is done once.
    var isRepeated = false
    /// Watches the deadline until a connection does.
    var timer: Scheduled<Void>?
    var dial: Dial?
    private var completion: ((Result<EndpointAnswer, DeliveryFailure>) -> Void)?

    init(
        head: ByteBuffer, body: [ByteBuffer], deadline: NIODeadline,
        completion: @escaping (Result<EndpointAnswer, DeliveryFailure>) -> Void
    ) {
        self.head = head
        self.body = body
        self.deadline = deadline
        self.completion = completion
    }

    /// Calls back, the first time it is called.
    func finish(_ result: Result<EndpointAnswer, DeliveryFailure>) {
        guard let completion else { return }
        self.completion = nil
        placed()
        completion(result)
    }

    /// From here on somebody else watches the deadline.
    func placed() {
        timer?.cancel()
        timer = nil
        dial = nil
    }
}
