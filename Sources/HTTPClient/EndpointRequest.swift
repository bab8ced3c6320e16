/// One request, with the limits of its answer.
package struct EndpointRequest {
    package let head: RequestHead
    /// Sent after those of the head.
    package let headers: [(String, String)]
    /// In parts, written in sequence.
    package let body: [[UInt8]]
    /// From `send` to the last byte of the answer.
    package let timeout: Duration
    /// A request that times out less than this after it got a connection, or one was being opened for it, says nothing
    /// of the server: it waited too long here.
    package let fairTime: Duration
    /// Bytes of the answer's body that are read. A longer one ends the connection, not the request: the answer has its
    /// status, and is not whole.
    package let answerBytesMax: Int
    /// Bytes of the answer's body that are kept, at most `answerBytesMax`.
    package let keptBytesMax: Int

    package init(
        head: RequestHead, headers: [(String, String)] = [], body: [[UInt8]] = [], timeout: Duration,
        fairTime: Duration = .zero, answerBytesMax: Int, keptBytesMax: Int
    ) {
        precondition(keptBytesMax <= answerBytesMax, "what is not read cannot be kept")
        self.head = head
        self.headers = headers
        self.body = body
        self.timeout = timeout
        self.fairTime = fairTime
        self.answerBytesMax = answerBytesMax
        self.keptBytesMax = keptBytesMax
    }
}
