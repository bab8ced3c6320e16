package import HTTPClient
package import Vocabulary

/// What follows from one attempt (posthouse-messages(7), "Retries"). Pure: time and randomness are passed in.
package enum DeliveryDecision: Sendable, Equatable {
    case accepted
    case retry(at: Timestamp, reason: String)
    /// The attempt does not count (a failed probe of an open breaker, for example): the delivery waits, with its gap
    /// unused.
    case postpone(at: Timestamp, reason: String)
    case dead(DeathReason)
    /// The receiver answered 410: it gets no attempt until somebody resumes it. The delivery waits, with its gap
    /// unused.
    case pauseIntegration(reason: String)

    /// Why no further attempt is made.
    package enum DeathReason: Sendable, Equatable {
        /// The last gap is used up.
        case exhausted(attempts: Int, last: String)
        /// A status that the integration lists in `permanent`.
        case permanent(status: Int)
        /// The next attempt would come after `give_up_after`.
        case pastDeadline(last: String)

        /// One line for the journal and the dead letter.
        package var explanation: String {
            switch self {
            case .exhausted(let attempts, let last):
                "\(last); given up after \(attempts) attempt\(attempts == 1 ? "" : "s")"
            case .permanent(let status): "answered \(status), which the integration lists as permanent"
            case .pastDeadline(let last): "\(last); the next attempt would come after give_up_after"
            }
        }
    }

    /// Why the attempt was not accepted, in one line; nil: it was.
    package var failure: String? {
        switch self {
        case .accepted: nil
        case .retry(_, let reason), .postpone(_, let reason), .pauseIntegration(let reason): reason
        case .dead(let death): death.explanation
        }
    }

    /// When the delivery is tried again; nil: not by itself.
    package var nextAttemptAt: Timestamp? {
        switch self {
        case .retry(let at, _), .postpone(let at, _): at
        case .accepted, .dead, .pauseIntegration: nil
        }
    }

    /// As it is written to the ledger.
    package func verdict(now: Timestamp) -> Settlement.Verdict {
        switch self {
        case .accepted: .accepted
        case .retry(let at, _): .retry(after: .milliseconds(at.milliseconds - now.milliseconds))
        case .postpone(let at, _): .postponed(after: .milliseconds(at.milliseconds - now.milliseconds))
        case .dead(let death): .dead(reason: death.explanation)
        case .pauseIntegration(let reason): .paused(reason: reason)
        }
    }

    /// Appends what the receiver answered. That goes into the ledger and not into the journal, because it may quote
    /// what it was sent.
    package static func withExcerpt(
        _ failure: String, of result: Result<EndpointAnswer, RequestFailure>
    ) -> String {
        guard case .success(let answer) = result, !answer.body.isEmpty else { return failure }
        return "\(failure): \(String(decoding: answer.body, as: UTF8.self))"
    }

    /// - Parameters:
    ///   - isProbe: the attempt was the probe of an open breaker.
    ///   - isOutdated: the integration was changed or removed during the attempt, or paused and resumed.
    ///   - attempt: the number of the attempt that brought `result`, from 1.
    ///   - createdAt: `Delivery.createdAt`; `give_up_after` counts from then.
    ///   - random: 0…1, places the gap within its jitter; not drawn where no gap is used.
    package static func decide(
        _ result: Result<EndpointAnswer, RequestFailure>, isProbe: Bool, isOutdated: Bool, attempt: Int,
        schedule: RetrySchedule, permanentStatuses: Set<Int>, createdAt: Timestamp, now: Timestamp,
        random: @autoclosure () -> Double
    ) -> DeliveryDecision {
        precondition(attempt >= 1, "attempts are counted from 1")
        let reason: String
        var asked: Duration = .zero
        switch result {
        case .success(let answer) where (200..<300).contains(answer.status): return .accepted
        case .success(let answer) where answer.status == 410 && isOutdated:
            // It may have another address now, or somebody has mended what is there, and a pause would hold up
            // everything that goes there. If nothing has changed, 410 is answered again.
            return .postpone(
                at: now,
                reason: "answered 410, but the integration was changed, removed or resumed meanwhile; it is not paused")
        case .success(let answer) where answer.status == 410:
            return .pauseIntegration(reason: "answered 410: the receiver says that it is gone")
        case .success(let answer) where permanentStatuses.contains(answer.status):
            return .dead(.permanent(status: answer.status))
        case .success(let answer):
            reason = describe(answer.status)
            if answer.status == 429 || answer.status == 503, let header = answer.retryAfter {
                asked = RetryAfter.parse(header, now: now) ?? .zero
            }
        case .failure(.cancelled):
            // This daemon cut it off, the receiver did not fail: nothing is used up.
            return .retry(at: now, reason: RequestFailure.cancelled.explanation)
        case .failure(let failure) where failure.isOfThisMachine:
            let next = now.advanced(byMilliseconds: milliseconds(Limits.breakerProbeInterval))
            return .postpone(at: next, reason: "\(failure.explanation); it uses up no attempt")
        case .failure(let failure): reason = failure.explanation
        }
        let deadline = schedule.giveUpAfter.map { createdAt.advanced(byMilliseconds: milliseconds($0)) }
        if isProbe, case .failing = EndpointHealth(result) {
            let next = now.advanced(byMilliseconds: milliseconds(min(asked, Limits.retryAfterMax)))
            if let deadline, next > deadline { return .dead(.pastDeadline(last: reason)) }
            return .postpone(at: next, reason: "\(reason); as a probe of the open breaker it uses up no attempt")
        }
        guard attempt <= schedule.gaps.count else { return .dead(.exhausted(attempts: attempt, last: reason)) }
        let gap = spread(milliseconds(schedule.gaps[attempt - 1]), share: schedule.jitter, random: random())
        let next = now.advanced(byMilliseconds: max(gap, milliseconds(min(asked, Limits.retryAfterMax))))
        if let deadline, next > deadline { return .dead(.pastDeadline(last: reason)) }
        return .retry(at: next, reason: reason)
    }

    private static func describe(_ status: Int) -> String {
        (300..<400).contains(status) ? "answered \(status): redirects are not followed" : "answered \(status)"
    }

    /// Double holds milliseconds exactly for longer than any gap that the configuration takes.
    private static func spread(_ gap: Int64, share: Double, random: Double) -> Int64 {
        let factor = 1 + min(max(share, 0), 1) * (2 * min(max(random, 0), 1) - 1)
        return Int64(exactly: (Double(gap) * factor).rounded()) ?? gap
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        return overflow ? .max : whole + attoseconds / 1_000_000_000_000_000
    }
}
