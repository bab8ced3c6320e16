import Testing
import Vocabulary

@testable import Observing

@Suite struct DetailLimiterTests {
    private let start = Timestamp(milliseconds: 1_636_307_015_000)

    private func at(_ seconds: Double) -> Timestamp { start.advanced(byMilliseconds: Int64(seconds * 1_000)) }

    /// Feeds accepted attempts and returns how many got an entry.
    private func feed(_ limiter: inout DetailLimiter, _ count: Int, integration: String = "backend") -> Int {
        (0..<count).count { _ in limiter.admit(.attempt(.sample(integration: integration))) }
    }

    private func described(_ sums: [Observation]) -> [String] { sums.map { JournalEntry($0).message } }

    /// The sums that a new second gives.
    private func end(_ limiter: inout DetailLimiter, at seconds: Double) -> [String] {
        described(limiter.endSecond(at: at(seconds)))
    }

    @Test func underTheLimitEverySuccessIsAnEntry() {
        var limiter = DetailLimiter(detailPerSecond: 100)
        for second in 0..<3 {
            #expect(end(&limiter, at: Double(second)).isEmpty)
            #expect(feed(&limiter, 100) == 100)
        }
        let sums = limiter.takeSums()
        #expect(sums.isEmpty)
    }

    /// Entries and sums together are all there was: nothing is logged twice, nothing is left out.
    @Test func aboveTheLimitTheRestOfTheSecondIsOneEntryForEachIntegration() throws {
        var limiter = DetailLimiter(detailPerSecond: 10)
        _ = limiter.endSecond(at: at(0))
        #expect(feed(&limiter, 10, integration: "a") == 10)
        #expect(feed(&limiter, 5, integration: "a") == 0)
        #expect(feed(&limiter, 7, integration: "b") == 0)
        #expect(end(&limiter, at: 0.9).isEmpty)
        let sums = end(&limiter, at: 1)
        #expect(
            sums == [
                "delivered 5 messages to a within a second, too many for an entry each (p50 12 ms, p99 12 ms)",
                "delivered 7 messages to b within a second, too many for an entry each (p50 12 ms, p99 12 ms)",
            ])
    }

    @Test func theSecondAfterABusyOneIsSummedFromItsStartUntilAQuietOneCameBetween() {
        var limiter = DetailLimiter(detailPerSecond: 10)
        _ = limiter.endSecond(at: at(0))
        #expect(feed(&limiter, 11) == 10)
        #expect(end(&limiter, at: 1).count == 1)
        #expect(feed(&limiter, 4) == 0, "the second before was over the limit")
        #expect(end(&limiter, at: 2).count == 1)
        #expect(feed(&limiter, 4) == 4, "the second before was under it")
    }

    @Test func failuresTransfersAndQuarantineAlwaysAreEntries() {
        var limiter = DetailLimiter(detailPerSecond: 1)
        _ = limiter.endSecond(at: at(0))
        _ = feed(&limiter, 50)
        let always: [Observation] = [
            .attempt(.sample(outcome: .retry, httpStatus: 500)), .attempt(.sample(outcome: .dead)),
            .attempt(.sample(outcome: .paused)), .transferResolved(.sample), .duplicateDiffers(.sample()),
            .quarantined(source: "p", quarantine: 1, reason: "r"), .transferVoided(.sample, explanation: "e"),
        ]
        for observation in always {
            let admitted = (0..<100).count { _ in limiter.admit(observation) }
            #expect(admitted == 100)
        }
    }

    @Test func recordedEventsHaveABudgetOfTheirOwnAndTheirSumCountsDuplicates() {
        var limiter = DetailLimiter(detailPerSecond: 3)
        _ = limiter.endSecond(at: at(0))
        #expect(feed(&limiter, 3) == 3)
        let admitted = (0..<10).count { limiter.admit(.eventRecorded(.sample(), duplicate: $0 >= 6)) }
        #expect(admitted == 3)
        #expect(
            end(&limiter, at: 1) == [
                "recorded 3 events and 4 duplicates from purchasely within a second, too many for an entry each"
            ])
    }

    @Test func aFloodOfRefusedRequestsIsBoundedInEverySecond() {
        var limiter = DetailLimiter(detailPerSecond: 1_000_000)
        for second in 0..<3 {
            let sums = end(&limiter, at: Double(second))
            #expect(sums.count == (second == 0 ? 0 : 1))
            let admitted = (0..<5_000).count { _ in
                limiter.admit(.refused(source: "purchasely", status: 401, reason: "wrong signature"))
            }
            #expect(admitted == ObservingLimits.refusalEntriesPerSecond)
        }
        let sums = limiter.takeSums()
        #expect(
            described(sums) == ["refused 4980 more requests to purchasely with 401 within a second"])
    }

    @Test func requestsThatAreNotVerifiedYetAreBoundedToo() {
        var limiter = DetailLimiter(detailPerSecond: 1_000_000)
        _ = limiter.endSecond(at: at(0))
        let admitted = (0..<5_000).count { _ in limiter.admit(.unverified(source: "play", reason: "its key")) }
        #expect(admitted == ObservingLimits.refusalEntriesPerSecond)
        #expect(end(&limiter, at: 1) == ["refused 4980 more requests to play with 503 within a second"])
    }

    @Test func theFirstRefusalOfASourceAndStatusIsAnEntryWhateverElseIsRefused() {
        var limiter = DetailLimiter(detailPerSecond: 1)
        for second in 0..<2 {
            _ = limiter.endSecond(at: at(Double(second)))
            for _ in 0..<5_000 { _ = limiter.admit(.refused(source: "a", status: 401, reason: "wrong signature")) }
            for (source, status) in [("b", 503), ("b", 401), ("a", 503)] {
                let refusal = Observation.refused(source: source, status: status, reason: "its own")
                let admitted = [limiter.admit(refusal), limiter.admit(refusal)]
                #expect(admitted == [true, false], "\(source) \(status) in second \(second)")
            }
            let unverified = limiter.admit(.unverified(source: "b", reason: "its key"))
            #expect(unverified)
        }
    }

    /// The path of a request names its source: whoever invents names must not fill the memory.
    @Test func namesFromOutsideAreBounded() {
        var limiter = DetailLimiter(detailPerSecond: 10)
        _ = limiter.endSecond(at: at(0))
        for number in 0..<10_000 { _ = limiter.admit(.refused(source: "s\(number)", status: 404, reason: "unknown")) }
        let sums = limiter.takeSums()
        #expect(sums.count == ObservingLimits.sumsPerSecondMax + 1)
        let reported = sums.reduce(0) { total, sum in
            if case .refusals(_, _, let count) = sum { total + count } else { total }
        }
        #expect(reported == 10_000 - ObservingLimits.refusalEntriesPerSecond)
    }

    @Test func aClockSetBackEndsTheSecondToo() {
        var limiter = DetailLimiter(detailPerSecond: 1)
        _ = limiter.endSecond(at: at(100))
        _ = feed(&limiter, 3)
        #expect(end(&limiter, at: 50).count == 1)
    }

    @Test func aNewLimitHoldsAtOnce() {
        var limiter = DetailLimiter(detailPerSecond: 1)
        limiter.setDetail(perSecond: 5)
        #expect(feed(&limiter, 9) == 5)
    }

    /// Oracle: the nearest-rank percentile of the sorted list; ours may be up to 1/32 below it.
    @Test(arguments: [UInt64(1), 2, 3]) func percentilesAreNearThoseOfTheSortedList(seed: UInt64) {
        var state = seed
        let latencies = (0..<5_000).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % (1 << Int(state >> 60))
        }
        var distribution = LatencyDistribution()
        for latency in latencies { distribution.add(milliseconds: latency) }
        let sorted = latencies.sorted()
        for share in [0.01, 0.5, 0.9, 0.99, 1] {
            let exact = sorted[Int((share * 5_000).rounded(.up)) - 1]
            let ours = distribution.percentile(share)
            #expect(ours <= exact && Double(ours) >= Double(exact) * 31 / 32)
        }
    }

    @Test func everyLatencyFallsIntoItsOwnStep() {
        for milliseconds in 0...200_000 {
            let index = LatencyDistribution.index(of: milliseconds)
            let floor = LatencyDistribution.milliseconds(at: index)
            let next = LatencyDistribution.milliseconds(at: index + 1)
            if !(floor <= milliseconds && milliseconds < next) { Issue.record("\(milliseconds) in \(floor)..<\(next)") }
        }
    }
}
