import NIOCore

/// The state machine of one connection: which request is under way, how long it may still take, what comes next. It
/// does no I/O and reads no clock. Only `IncomingConnection` uses it: it passes input on and performs the actions.
///
///     idle → head → body → answering → idle …            a request that is served
///                 ↘ discarding → idle …                  refused, with a body small enough to be dropped
///     any → leaving → lingering → closed                 the last answer of the connection
///
/// Requests are served one after another. `IncomingConnection` keeps back what a client sends ahead (pipelining) until
/// the answer before it is written, so that a phase never holds two requests.
struct Exchange {
    enum Phase {
        /// Nothing of a next request has come.
        case idle
        /// Some of a head has come.
        case head(firstByte: NIODeadline)
        case body(Receiving)
        case discarding(HTTPAnswer)
        /// The handler has the request.
        case answering(Pending)
        /// The last answer is being written, or what is left of those before it; further input is dropped.
        case leaving(lingers: Bool)
        /// The last answer is written and our side is closed; the client's is read to its end, within limits.
        case lingering(bytesLeft: Int)
        case closed
    }

    /// A body that is coming in.
    struct Receiving {
        let head: IncomingHead
        let startedAt: NIODeadline
        var bytes: [UInt8] = []
        /// The content-length; nil for a chunked or empty body.
        let announced: Int?
        let bytesMax: Int
        let answerBy: NIODeadline
        let timeoutAnswer: HTTPAnswer
    }

    /// A request that waits for its handler.
    struct Pending {
        let head: IncomingHead
        let sequence: UInt64
        let timeoutAnswer: HTTPAnswer
        /// Bytes of the next request have arrived meanwhile.
        var nextBegan = false
    }

    /// What `IncomingConnection` is to do.
    enum Action {
        case nothing
        case respond(IncomingRequest, sequence: UInt64)
        /// 100 Continue.
        case sendContinue
        case send(HTTPAnswer, AnswerStyle)
        /// Like `send`, and the handler is notified of an answer that is not its own.
        case reject(HTTPAnswer, AnswerStyle, IncomingHead?, reason: String)
        /// No answer follows those that were sent: `lastAnswerWritten` is due once they are passed to the kernel.
        case sendNoMore
        case closeOutput
        case close
    }

    var phase = Phase.idle
    /// When `timeIsUp` is to be called.
    var deadline: NIODeadline
    let waits: Waits
    let lingerBytesMax: Int
    let discardBytesMax: Int
    var sequence: UInt64 = 0
    /// No request has come yet.
    var isFresh = true
    var isDraining = false
    /// Of the request under way.
    var style = AnswerStyle()

    init(now: NIODeadline, waits: Waits, limits: HTTPServerLimits) {
        self.waits = waits
        lingerBytesMax = limits.lingerBytesMax
        discardBytesMax = limits.discardBytesMax
        deadline = now + waits.head
    }

    /// Whether a part can be taken now, or must wait for the answer under way.
    var takesParts: Bool { if case .answering = phase { false } else { true } }

    /// The connection has had its last answer.
    var isEnding: Bool {
        switch phase {
        case .leaving, .lingering, .closed: true
        default: false
        }
    }

    /// Bytes of an unfinished body.
    var heldBytes: Int { if case .body(let receiving) = phase { receiving.bytes.count } else { 0 } }
}

// MARK: What the client sends

extension Exchange {
    /// Bytes of a next request came that do not make a head yet, or that wait for the answer under way.
    mutating func bytesCame(now: NIODeadline) {
        switch phase {
        case .idle:
            phase = .head(firstByte: now)
            // A connection's first head is timed from the connection's start.
            if !isFresh { deadline = now + waits.head }
        case .answering(var pending):
            pending.nextBegan = true
            phase = .answering(pending)
        default: break
        }
    }

    /// A head that can be served came at `arrived` and is processed at `now`.
    mutating func headCame(
        _ head: IncomingHead, _ framing: Framing, _ admission: Admission, arrived: NIODeadline, now: NIODeadline
    ) -> Action {
        let startedAt: NIODeadline
        switch phase {
        case .idle: startedAt = arrived
        case .head(let firstByte): startedAt = min(firstByte, arrived)
        default: return .nothing
        }
        isFresh = false
        style = AnswerStyle(
            omitsBody: framing.isHead, isOldVersion: framing.isOldVersion, closes: !framing.keepsAlive)
        switch admission {
        case .refuse(let answer): return refuse(answer, framing, now: now)
        case .accept(let bytesMax, let timeout, let timeoutAnswer):
            if case .length(let bytes) = framing.body, bytes > bytesMax {
                return reject(
                    .bodyTooLarge(bytesMax: bytesMax), head, "the body is larger than \(bytesMax) bytes", now: now)
            }
            let answerBy = startedAt + TimeAmount(timeout)
            deadline = min(answerBy, now + waits.body)
            var announced: Int?
            if case .length(let bytes) = framing.body { announced = bytes }
            phase = .body(
                Receiving(
                    head: head, startedAt: startedAt, announced: announced, bytesMax: bytesMax, answerBy: answerBy,
                    timeoutAnswer: timeoutAnswer))
            return framing.expectsContinue ? .sendContinue : .nothing
        }
    }

    private mutating func refuse(_ answer: HTTPAnswer, _ framing: Framing, now: NIODeadline) -> Action {
        let canDiscard =
            switch framing.body {
            case .none: true
            case .length(let bytes): bytes <= discardBytesMax && !framing.expectsContinue
            case .chunked: false
            }
        guard canDiscard else { return leave(answer, lingers: true, now: now) }
        deadline = now + waits.body
        phase = .discarding(answer)
        return .nothing
    }

    mutating func bodyCame(_ part: ByteBuffer, now: NIODeadline) -> Action {
        switch phase {
        case .body(var receiving):
            phase = .idle  // releases the bytes, so that they are appended to in place
            guard part.readableBytes <= receiving.bytesMax - receiving.bytes.count else {
                let max = receiving.bytesMax
                return reject(
                    .bodyTooLarge(bytesMax: max), receiving.head, "the body is larger than \(max) bytes", now: now)
            }
            if receiving.bytes.isEmpty, part.readableBytes == receiving.announced {
                receiving.bytes = Array(buffer: part)
            } else {
                // The announced length is not allocated in advance: memory grows by what has come.
                receiving.bytes.append(contentsOf: part.readableBytesView)
            }
            phase = .body(receiving)
            return .nothing
        case .lingering: return dropped(bytes: part.readableBytes)
        default: return .nothing
        }
    }

    mutating func messageEnded(now: NIODeadline) -> Action {
        switch phase {
        case .body(let receiving):
            sequence += 1
            phase = .answering(
                Pending(head: receiving.head, sequence: sequence, timeoutAnswer: receiving.timeoutAnswer))
            deadline = receiving.answerBy
            let request = IncomingRequest(
                head: receiving.head, body: receiving.bytes, startedAt: receiving.startedAt)
            return .respond(request, sequence: sequence)
        case .discarding(let answer): return finish(answer, nextBegan: false, now: now)
        default: return .nothing
        }
    }

    /// The input is not HTTP, or a head that must not be served.
    mutating func unservable(_ error: Unservable, now: NIODeadline) -> Action {
        if isEnding { return .nothing }
        var head: IncomingHead?
        if case .body(let receiving) = phase { head = receiving.head }
        return reject(error.answer, head, error.reason, now: now)
    }

    /// All unfinished bodies together exceed the limit, and this is one of them.
    mutating func bodiesOverflowed(now: NIODeadline) -> Action {
        guard case .body(let receiving) = phase else { return .nothing }
        return reject(.bodiesTooMany, receiving.head, "too many unfinished bodies", now: now)
    }

    /// Bytes were read and dropped.
    mutating func dropped(bytes: Int) -> Action {
        guard case .lingering(let left) = phase else { return .nothing }
        if bytes > left { return close() }
        phase = .lingering(bytesLeft: left - bytes)
        return .nothing
    }

    /// The client will send nothing more. It may still read: answers that are not written yet are not cut off.
    mutating func inputEnded(now: NIODeadline) -> Action {
        switch phase {
        case .leaving: return .nothing
        case .idle, .head, .body, .discarding:
            phase = .leaving(lingers: false)
            deadline = now + waits.lastAnswer
            return .sendNoMore
        case .answering, .lingering, .closed: return close()
        }
    }
}

// MARK: What is answered

extension Exchange {
    /// The handler's answer. It is dropped if the request does not wait for it (any more).
    mutating func answered(_ answer: HTTPAnswer, to number: UInt64, now: NIODeadline) -> Action {
        guard case .answering(let pending) = phase, pending.sequence == number else { return .nothing }
        return finish(answer, nextBegan: pending.nextBegan, now: now)
    }

    /// All that the connection is to get was passed to the kernel.
    mutating func lastAnswerWritten(now: NIODeadline) -> Action {
        guard case .leaving(let lingers) = phase else { return .nothing }
        guard lingers else { return close() }
        phase = .lingering(bytesLeft: lingerBytesMax)
        deadline = now + waits.linger
        return .closeOutput
    }

    mutating func timeIsUp(now: NIODeadline) -> Action {
        guard now >= deadline else { return .nothing }
        switch phase {
        case .idle, .leaving, .lingering: return close()
        case .head: return reject(.headTimeout, nil, "the head did not come in time", now: now)
        case .body(let receiving):
            // 408 even if the answer's time is up first, because the client was the slow one.
            return reject(.bodyTimeout, receiving.head, "the body did not come in time", now: now)
        case .discarding: return reject(.bodyTimeout, nil, "the body did not come in time", now: now)
        case .answering(let pending):
            let action = finish(pending.timeoutAnswer, nextBegan: pending.nextBegan, now: now)
            guard case .send(let answer, let style) = action else { return action }
            return .reject(answer, style, pending.head, reason: "the answer's time is up")
        case .closed: return .nothing
        }
    }

    /// From now on each answer is the last of its connection.
    mutating func drain(now: NIODeadline) {
        isDraining = true
        if case .idle = phase { deadline = min(deadline, now + (isFresh ? waits.drainFresh : waits.drainIdle)) }
    }

    /// The answer of a request that was read whole.
    mutating func finish(_ answer: HTTPAnswer, nextBegan: Bool, now: NIODeadline) -> Action {
        if answer.closes || style.closes || isDraining { return leave(answer, lingers: nextBegan, now: now) }
        let style = style
        self.style = AnswerStyle()
        if nextBegan {
            phase = .head(firstByte: now)
            deadline = now + waits.head
        } else {
            phase = .idle
            deadline = now + waits.idle
        }
        return .send(answer, style)
    }

    /// `lingers`: bytes of the client may be unread; closing now would send a reset that discards the answer.
    mutating func leave(_ answer: HTTPAnswer, lingers: Bool, now: NIODeadline) -> Action {
        style.closes = true
        phase = .leaving(lingers: lingers)
        deadline = now + waits.lastAnswer
        return .send(answer, style)
    }

    mutating func reject(
        _ answer: HTTPAnswer, _ head: IncomingHead?, _ reason: String, now: NIODeadline
    ) -> Action {
        guard case .send(let answer, let style) = leave(answer, lingers: true, now: now) else { return .close }
        return .reject(answer, style, head, reason: reason)
    }

    mutating func close() -> Action {
        phase = .closed
        deadline = .distantFuture
        return .close
    }
}
