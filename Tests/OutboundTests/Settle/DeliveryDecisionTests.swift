import HTTPClient
import Ledger
import Testing
import Vocabulary

@testable import Outbound

/// Oracle: posthouse-messages(7), "Retries": n gaps, n + 1 attempts; 2xx is success; 410 pauses; 429 and 503 obey
/// Retry-After; `give_up_after` wins over gap and Retry-After.
@Suite struct DeliveryDecisionTests {
    private let created = Timestamp(milliseconds: 1_700_000_000_000)
    private let now = Timestamp(milliseconds: 1_700_000_100_000)

    private func decide(
        _ result: Result<EndpointAnswer, RequestFailure>, isProbe: Bool = false, isOutdated: Bool = false,
        attempt: Int = 1, gaps: [Duration] = RetrySchedule.defaultGaps,
        jitter: Double = 0, giveUpAfter: Duration? = nil, permanent: Set<Int> = [], random: Double = 0.5
    ) -> DeliveryDecision {
        DeliveryDecision.decide(
            result, isProbe: isProbe, isOutdated: isOutdated, attempt: attempt,
            schedule: RetrySchedule(gaps: gaps, jitter: jitter, giveUpAfter: giveUpAfter),
            permanentStatuses: permanent, createdAt: created, now: now, random: random)
    }

    private func answer(_ status: Int, retryAfter: String? = nil) -> Result<EndpointAnswer, RequestFailure> {
        .success(EndpointAnswer(status: status, retryAfter: retryAfter))
    }

    private func wait(_ decision: DeliveryDecision) -> Int64? {
        if case .retry(let at, _) = decision { at.milliseconds - now.milliseconds } else { nil }
    }

    @Test(arguments: 100...599) func everyStatus(status: Int) {
        switch (decide(answer(status)), decide(answer(status), permanent: [status])) {
        case (.accepted, .accepted): #expect((200...299).contains(status))
        case (.pauseIntegration, .pauseIntegration): #expect(status == 410)
        case (.retry(let at, let reason), .dead(.permanent(let permanent))):
            #expect(status != 410 && !(200...299).contains(status))
            #expect(permanent == status)
            #expect(at == now.advanced(byMilliseconds: 5_000))
            #expect(reason.contains("\(status)"))
        case let other: Issue.record("\(status): \(other)")
        }
    }

    @Test(arguments: [false, true]) func anOutdatedAttemptPausesNothing(isProbe: Bool) {
        let gone = decide(answer(410), isProbe: isProbe, isOutdated: true, attempt: 99)
        guard case .postpone(let at, let reason) = gone else {
            Issue.record("it is not kept")
            return
        }
        #expect(at == now && reason.contains("410"))
        for status in [200, 404, 500] {
            let result = answer(status)
            #expect(decide(result, isProbe: isProbe, isOutdated: true) == decide(result, isProbe: isProbe))
        }
    }

    @Test func whatIsWrittenOfEachDecision() {
        let next = now.advanced(byMilliseconds: 1_500)
        let table: [(DeliveryDecision, failure: String?, next: Timestamp?, outcome: Outcome)] = [
            (.accepted, nil, nil, .accepted), (.retry(at: next, reason: "a"), "a", next, .retry),
            (.postpone(at: next, reason: "b"), "b", next, .retry),
            (.dead(.pastDeadline(last: "c")), "c; the next attempt would come after give_up_after", nil, .dead),
            (.pauseIntegration(reason: "d"), "d", nil, .paused),
        ]
        for (decision, failure, next, outcome) in table {
            #expect(decision.failure == failure && decision.nextAttemptAt == next)
            #expect(decision.verdict(now: now).outcome == outcome)
        }
        guard case .retry(let wait) = DeliveryDecision.retry(at: next, reason: "").verdict(now: now) else {
            Issue.record("a retry is written as another verdict")
            return
        }
        #expect(wait == .milliseconds(1_500), "from now on")
    }

    @Test func aTestIsTheFirstAttemptOfADeliveryWithoutJitter() {
        let integration = Integration(
            name: "a", url: EndpointURL(isTLS: false, host: "h", port: 80, target: "/"), events: [], environments: [],
            sources: [], format: .standard, signingKeys: [], headers: [], timeout: .seconds(1),
            schedule: RetrySchedule(gaps: [.seconds(7)], jitter: 1, giveUpAfter: nil), permanentStatuses: [400],
            concurrency: 1, order: .purchase, allowsPrivateAddresses: false, certificateAuthorityFile: nil)
        func decision(_ status: Int) -> DeliveryDecision {
            TestAttempt(result: answer(status), latencyMilliseconds: 3).decision(for: integration, now: now)
        }
        #expect(decision(204) == .accepted)
        #expect(wait(decision(500)) == 7_000)
        #expect(decision(400) == .dead(.permanent(status: 400)))
    }

    @Test func everyAttemptHasItsGapAndThenItIsOver() {
        let gaps = RetrySchedule.defaultGaps
        for (index, gap) in gaps.enumerated() {
            #expect(wait(decide(answer(500), attempt: index + 1)) == gap.components.seconds * 1_000)
        }
        for attempt in [gaps.count + 1, gaps.count + 2, Int.max] {
            #expect(
                decide(answer(500), attempt: attempt) == .dead(.exhausted(attempts: attempt, last: "answered 500")))
        }
        #expect(decide(answer(500), gaps: []) == .dead(.exhausted(attempts: 1, last: "answered 500")))
        // Success, 410 and permanent say more than "the last one".
        #expect(decide(answer(204), attempt: 10) == .accepted)
        guard case .pauseIntegration = decide(answer(410), attempt: 10) else {
            Issue.record("410 used a gap up")
            return
        }
        #expect(decide(answer(422), attempt: 10, permanent: [422]) == .dead(.permanent(status: 422)))
    }

    @Test func jitterSpreadsTheGapToBothSides() {
        for (random, expected) in [(0.0, 80_000), (0.5, 100_000), (1.0, 120_000), (-3, 80_000), (7, 120_000)] {
            let decision = decide(answer(500), gaps: [.seconds(100)], jitter: 0.2, random: random)
            #expect(wait(decision) == Int64(expected))
        }
        #expect(wait(decide(answer(500), gaps: [.seconds(100)], jitter: 1, random: 0)) == 0)
    }

    @Test func nothingIsDrawnWhereNoGapIsUsed() {
        func draws(_ result: Result<EndpointAnswer, RequestFailure>, isProbe: Bool = false, attempt: Int = 1) -> Int {
            var draws = 0
            func draw() -> Double {
                draws += 1
                return 0.5
            }
            _ = DeliveryDecision.decide(
                result, isProbe: isProbe, isOutdated: false, attempt: attempt,
                schedule: RetrySchedule(gaps: [.seconds(5)], jitter: 0.2, giveUpAfter: nil), permanentStatuses: [422],
                createdAt: created, now: now, random: draw())
            return draws
        }
        #expect(draws(answer(500)) == 1)
        for result in [answer(200), answer(410), answer(422), .failure(.cancelled)] { #expect(draws(result) == 0) }
        #expect(draws(answer(500), attempt: 2) == 0)
        #expect(draws(answer(500), isProbe: true) == 0)
    }

    @Test func onlySomeStatusesObeyRetryAfter() {
        for status in 300...599 where status != 410 {
            let obeys = status == 429 || status == 503
            #expect(wait(decide(answer(status, retryAfter: "60"))) == (obeys ? 60_000 : 5_000))
        }
        for (header, expected) in [("1", 5_000), ("garbage", 5_000), ("86400", 86_400_000), ("864000", 86_400_000)] {
            #expect(wait(decide(answer(503, retryAfter: header))) == Int64(expected))
        }
        // The gap is the later one, though Retry-After is bounded.
        let long = decide(answer(429, retryAfter: "999999"), gaps: [.seconds(200_000)])
        #expect(wait(long) == 200_000_000)
    }

    @Test func theDeadlineWinsOverGapAndRetryAfter() {
        // 100 s have gone by since creation; the next attempt would be at 105 s.
        #expect(wait(decide(answer(500), giveUpAfter: .seconds(105))) == 5_000)
        #expect(
            decide(answer(500), giveUpAfter: .milliseconds(104_999)) == .dead(.pastDeadline(last: "answered 500")))
        #expect(
            decide(answer(503, retryAfter: "60"), giveUpAfter: .seconds(159))
                == .dead(.pastDeadline(last: "answered 503")))
        #expect(decide(answer(200), giveUpAfter: .seconds(1)) == .accepted)
        // A deadline beyond all time is none, and does not trap.
        #expect(wait(decide(answer(500), giveUpAfter: .seconds(Int64.max / 2))) == 5_000)
    }

    @Test func failuresAreRetriedAndOurOwnGivingUpCostsNothing() {
        let failures: [RequestFailure] = [
            .refusedAddress("a"), .unresolvable("a"), .connectFailed("a"), .tlsFailed("a"), .timedOut(.body),
            .connectionLost(.head), .malformedAnswer("a"), .unsendable("a"),
        ]
        for failure in failures {
            #expect(
                decide(.failure(failure))
                    == .retry(at: now.advanced(byMilliseconds: 5_000), reason: failure.explanation))
        }
        for attempt in [1, 10] {
            #expect(wait(decide(.failure(.cancelled), attempt: attempt, giveUpAfter: .seconds(1))) == 0)
        }
    }

    @Test func whatThisMachineLacksUsesUpNoAttempt() {
        let decision = decide(.failure(.shortage("raise LimitNOFILE=")), attempt: 10)
        guard case .postpone(let at, let reason) = decision else { Issue.record("\(decision)"); return }
        #expect(at == now.advanced(byMilliseconds: 5_000) && reason.contains("raise LimitNOFILE="))
        #expect(EndpointHealth(.failure(.shortage(""))) == .starved)
    }

    @Test func aFailedProbeOfAnOpenBreakerUsesUpNoAttempt() {
        func kept(_ decision: DeliveryDecision) -> Int64? {
            if case .postpone(let at, _) = decision { at.milliseconds - now.milliseconds } else { nil }
        }
        for attempt in [1, 10, 11] {
            #expect(kept(decide(answer(500), isProbe: true, attempt: attempt)) == 0)
            #expect(kept(decide(.failure(.timedOut(.head)), isProbe: true, attempt: attempt)) == 0)
        }
        for (header, expected) in [("60", 60_000), ("864000", 86_400_000), ("garbage", 0)] as [(String, Int64)] {
            #expect(kept(decide(answer(503, retryAfter: header), isProbe: true)) == expected)
            #expect(kept(decide(answer(429, retryAfter: header), isProbe: true)) == expected)
            #expect(kept(decide(answer(500, retryAfter: header), isProbe: true)) == 0)
        }
        // 100 s have gone by since creation.
        #expect(
            decide(answer(500), isProbe: true, giveUpAfter: .seconds(99)) == .dead(.pastDeadline(last: "answered 500")))
        #expect(
            decide(answer(503, retryAfter: "60"), isProbe: true, giveUpAfter: .seconds(159))
                == .dead(.pastDeadline(last: "answered 503")))
        #expect(kept(decide(answer(503, retryAfter: "60"), isProbe: true, giveUpAfter: .seconds(160))) == 60_000)
    }

    /// The receiver answered, or was not asked: what follows is as it is without a breaker.
    @Test func whatSaysSomethingOfTheMessageAloneIsDecidedForAProbeAsForAnyOther() {
        let results: [Result<EndpointAnswer, RequestFailure>] = [
            answer(200), answer(404), answer(410), answer(422), .failure(.refusedAddress("a")),
            .failure(.unsendable("a")),
            .failure(.cancelled),
        ]
        for result in results {
            #expect(
                decide(result, isProbe: true, permanent: [422]) == decide(result, isProbe: false, permanent: [422]))
        }
        #expect(wait(decide(answer(404), isProbe: true)) == 5_000)
        #expect(decide(answer(404), isProbe: true, attempt: 10) == decide(answer(404), attempt: 10))
    }

    @Test func theReasonSaysWhich() {
        let reasons: [DeliveryDecision.DeathReason] = [
            .exhausted(attempts: 10, last: "answered 500"), .permanent(status: 422),
            .pastDeadline(last: "timed out while connecting"),
        ]
        #expect(
            reasons.map(\.explanation) == [
                "answered 500; given up after 10 attempts", "answered 422, which the integration lists as permanent",
                "timed out while connecting; the next attempt would come after give_up_after",
            ])
    }
}
