import Testing
import Vocabulary

/// What the limits owe one another. Vendors' own limits are named where they rule.
@Suite("Relations between the limits")
struct LimitsTests {
    @Test("A webhook is answered before its source stops reading (Purchasely: 10 s)")
    func acknowledgement() {
        #expect(Limits.acknowledgementTimeout < .seconds(10))
        #expect(Limits.connectTimeout < Limits.acknowledgementTimeout)
        #expect(Limits.retryAfterUnavailableSeconds > 0)
        // What waits to be confirmed is answered 200 before the HTTP server answers 503.
        let longest = Limits.acknowledgementTimeout - Limits.acknowledgementMargin
        #expect(Limits.confirmTimeout <= Limits.confirmTimeoutMax && Limits.confirmTimeoutMax < longest)
        #expect(Limits.confirmTick < Limits.acknowledgementMargin && Limits.confirmPoll < Limits.confirmTimeout)
        #expect(Limits.requestBodyTimeout >= Limits.requestHeadTimeout)
        #expect(Limits.keepAliveIdleTimeout > Limits.requestHeadTimeout)
        #expect(Limits.requestHeadBytesMax < Limits.requestBodyBytesMax)
    }

    @Test("A lease survives a missed renewal, and no attempt starts that it does not cover")
    func leases() {
        #expect(Limits.leaseMargin < Limits.leaseDuration)
        #expect(Limits.leaseRenewal * 2 < Limits.leaseDuration - Limits.leaseMargin)
        #expect(Limits.pollInterval < Limits.leaseRenewal)
        // A leak is given back at the second look; a delivery that is being handed over is gone by then.
        #expect(Limits.sweepInterval > Limits.statementTimeout / 2 && Limits.sweepInterval > Limits.pollInterval)
    }

    @Test("Queues hold what feeds them")
    func queues() {
        #expect(Limits.recordBatchEventsMax * Limits.recordWriters <= Limits.recordQueueEventsMax)
        // A body of the largest size always fits, and one batch's parameters fit a statement (512 MiB).
        #expect(Limits.requestBodyBytesMax <= Limits.recordQueueBytesMax)
        #expect(Limits.recordQueueBytesMax * 4 <= 512 << 20)
        #expect(Limits.claimDeliveriesMax <= Limits.laneDeliveriesMax)
        #expect(Limits.laneConcurrencyMax <= Limits.laneDeliveriesMax)
        #expect(Limits.laneBytesMin <= Limits.laneBytesMax && Limits.laneBytesMax <= Limits.dispatchBufferBytesMax)
        #expect(Limits.settleBatchMax * Limits.settleWriters <= Limits.settleBufferMax)
        #expect(Limits.laneConcurrencyMax <= Limits.settleBufferMax)
        #expect(Limits.listenBacklog <= Limits.connectionsMax)
    }

    @Test("An identifier fits an index row (2,704 bytes on a page of 8 KiB), two of them too")
    func identifiers() { #expect(Limits.identifierBytesMax * 2 + 64 < 2_704) }

    @Test("A breaker looks at no fewer attempts than it needs; a rate's slots are not missed for good")
    func breakersAndRates() {
        #expect(Limits.breakerAttemptsNeeded <= Limits.breakerAttemptsWatched)
        #expect(Limits.breakerProbeInterval > Limits.pollInterval)
        #expect(Limits.rateLateness < Limits.rateLookAhead)
        // A second slot that is as late as may be is still in the next second for the receiver.
        #expect(Limits.rateLateness * 2 <= .milliseconds(10 * Limits.rateMarginPercent))
        #expect(Limits.rateArrivalMax < .seconds(1))
    }

    @Test("Waits nest: attempt, statement, connection, stop")
    func waits() {
        #expect(Limits.attemptTimeout <= Limits.attemptTimeoutMax)
        #expect(Limits.laneConcurrency <= Limits.laneConcurrencyMax)
        #expect(Limits.statementDeadlineMargin < Limits.statementTimeout)
        #expect(Limits.reconnectBackoff.lowerBound < Limits.reconnectBackoff.upperBound)
        // An outage that ends is noticed before the lease does.
        #expect(Limits.reconnectBackoff.upperBound < Limits.leaseDuration - Limits.leaseMargin)
        // TimeoutStopSec of the unit is 90 s; half a minute is enough for whoever waits at a terminal.
        #expect(Limits.drainTimeout < .seconds(30))
        #expect(Limits.settleDelay < .milliseconds(100))
        #expect(Limits.responseExcerptBytesMax <= Limits.responseBodyBytesMax)
    }

    @Test("The schedule's default gaps grow, and stay within what Retry-After may ask for")
    func schedule() {
        let gaps = RetrySchedule.defaultGaps
        #expect(gaps == gaps.sorted() && Set(gaps).count == gaps.count && gaps.count == 9)
        #expect(gaps.allSatisfy { $0 <= Limits.retryAfterMax })
        // Longer than Purchasely's own 20 days 10 hours of retries: a late webhook still meets its facts.
        #expect(Limits.retryHorizonMilliseconds > (20 * 24 + 10) * 3_600_000)
        #expect(Limits.ungrantedTenureMilliseconds < Limits.retryHorizonMilliseconds)
    }
}
