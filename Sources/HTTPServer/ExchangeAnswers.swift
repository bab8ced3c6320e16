import NIOCore

// MARK: What is answered

extension Exchange {
    /// The handler's answer. It is dropped if the request does not wait for it (any more).
    mutating func answered(_ answer: HTTPAnswer, to number: UInt64, now: NIODeadline) -> Action {
        guard case .answering(let pending) = phase, pending.sequence == number else { return .nothing }
        return finish(answer, nextBegan: pending.nextBegan, now: now)
    }

    /// The last answer was passed to the kernel.
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
