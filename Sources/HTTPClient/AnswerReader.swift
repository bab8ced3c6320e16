import NIOCore
import Vocabulary

/// Reads the answer to one request. Pure: it is fed with the output of the HTTP decoder, or with a `WholeAnswer`. It
/// limits what an answer may cost and keeps the start of its body. An answer is complete once its body has ended or
/// exceeds the limit.
struct AnswerReader {
    private enum State {
        case head
        case body
        case finished
    }

    private let bodyBytesMax: Int
    private let keptBytesMax: Int
    private var state: State = .head
    private var status = 0
    private var retryAfter: String?
    private var cacheControl: String?
    private var keepsAlive = false
    private var kept = [UInt8]()
    private var rawBytes = 0
    private var bodyBytes = 0
    /// The rest of the body was not read.
    private var isCut = false

    /// - Parameters:
    ///   - bodyBytesMax: bytes of the body that are read.
    ///   - keptBytesMax: bytes of it that are kept.
    init(bodyBytesMax: Int, keptBytesMax: Int) {
        self.bodyBytesMax = bodyBytesMax
        self.keptBytesMax = keptBytesMax
    }

    /// No byte of an answer has come: a request on a kept-alive connection may be sent again.
    var isUntouched: Bool { rawBytes == 0 }

    var isFinished: Bool { state == .finished }

    var hasHead: Bool { state != .head }

    /// The answer, and whether its connection can carry another request; nil while there is more to come.
    var answer: (answer: EndpointAnswer, keepsAlive: Bool)? {
        guard state == .finished else { return nil }
        let isWhole = !isCut && kept.count == bodyBytes
        let answer = EndpointAnswer(
            status: status, retryAfter: retryAfter, cacheControl: cacheControl, body: kept, isWhole: isWhole)
        return (answer, keepsAlive)
    }

    /// Counts bytes as they come off the connection, before they are decoded.
    mutating func count(rawBytes count: Int) { rawBytes += count }

    mutating func head(
        status: Int, keepsAlive: Bool, retryAfter: String?, cacheControl: String? = nil
    ) throws(RequestFailure) {
        guard state == .head else { return distrust() }
        guard (200...599).contains(status) else {
            throw .malformedAnswer("status \(status), which does not answer a request")
        }
        state = .body
        self.status = status
        self.keepsAlive = keepsAlive
        self.retryAfter = retryAfter
        self.cacheControl = cacheControl
    }

    mutating func body(_ bytes: ByteBufferView) {
        guard state == .body else { return distrust() }
        bodyBytes += bytes.count
        let room = keptBytesMax - kept.count
        if room > 0 { kept.append(contentsOf: bytes.prefix(room)) }
        if bodyBytes > bodyBytesMax { cutShort() }
    }

    mutating func end() {
        guard state == .body else { return distrust() }
        state = .finished
    }

    /// Reads an answer that has been read whole, in place of its parts.
    mutating func whole(_ answer: WholeAnswer, in read: ByteBuffer) {
        state = .body
        (status, cacheControl, keepsAlive) = (answer.status, answer.cacheControl, true)
        body(read.readableBytesView.dropFirst(answer.bodyStart))
        if state == .body { end() }
    }

    /// Called at the end of each read. Limits what no decoded part shows: interim answers, reason phrases, chunk
    /// extensions.
    mutating func readComplete() throws(RequestFailure) {
        switch state {
        case .head where rawBytes > Limits.responseHeadBytesMax:
            throw .malformedAnswer("its head is longer than \(Limits.responseHeadBytesMax) bytes")
        case .body where rawBytes > Limits.responseHeadBytesMax + bodyBytesMax:
            cutShort()
        case .head, .body, .finished:
            return
        }
    }

    /// Keeps the status; the rest of the body stays on a connection that is not used again.
    private mutating func cutShort() {
        state = .finished
        isCut = true
        keepsAlive = false
    }

    /// Input came that this request did not ask for: no later request on this connection may take it for its answer.
    mutating func distrust() { keepsAlive = false }
}
