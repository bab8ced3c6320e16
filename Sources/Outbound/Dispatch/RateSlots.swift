import Ledger
import NIOCore
import Vocabulary

/// The requests that one lane may make under its integration's `rate`. Pure: time is passed in.
///
/// All daemons draw from one row of the database (`Queue.reserveSlots`), a stretch of evenly spaced slots at a time, so
/// the limit holds over all of them. A slot is for one request, at its time and no later than `rateLateness` after it:
/// one that was missed goes unused, for two requests in the place of one would be a burst. Three things keep the
/// receiver, which counts by its own clock, below the limit:
/// - slots lie a little further apart than the limit asks for (`rateMargin`);
/// - as many as are held at once last a quarter of a second at most (`rateLookAhead`);
/// - the request that is `count` behind must have arrived a whole period ago. That it has arrived is known when it is
///   answered, or taken for granted `rateArrivalMax` after it was sent.
struct RateSlots {
    /// A request that was made, until as many followed as the limit counts.
    private struct Use {
        /// It has arrived by then.
        var arrivedBy: NIODeadline
    }

    let limit: RateLimit
    /// Between two slots.
    let interval: TimeAmount
    /// The most slots that are reserved at once, while the database answers quickly.
    let batchMax: Int
    private var slots = CircularBuffer<NIODeadline>()
    private var uses = CircularBuffer<Use>()
    /// Of the first of `uses`, counted from the first request ever.
    private var firstUse = 0
    /// The next reservation: twice the one before if that was used up, else no more than was used of it.
    private var batch = 1
    private var usedOfBatch = 0
    private var missedOfBatch = 0
    private var isReserving = false
    /// A reservation failed: the next one after the next poll.
    private var isHeldUp = false
    private var databaseTime = DatabaseOffset()

    init(_ limit: RateLimit) {
        self.limit = limit
        let period = TimeAmount(limit.period).nanoseconds
        interval = .nanoseconds(period / Int64(limit.count) * Int64(100 + Limits.rateMarginPercent) / 100)
        batchMax = max(1, Int(TimeAmount(Limits.rateLookAhead).nanoseconds / interval.nanoseconds))
    }

    /// Uses a slot up for a request that starts now.
    /// - Returns: the number of the request, for `ended`; nil: none may start now.
    mutating func take(at now: NIODeadline) -> Int? {
        dropMissed(at: now)
        guard let slot = slots.first, slot <= now, clearance(at: now) <= now else { return nil }
        slots.removeFirst()
        usedOfBatch += 1
        if uses.count == limit.count {
            uses.removeFirst()
            firstUse += 1
        }
        uses.append(Use(arrivedBy: now + TimeAmount(Limits.rateArrivalMax)))
        return firstUse + uses.count - 1
    }

    /// The request has ended, so it has arrived before.
    mutating func ended(_ number: Int, at now: NIODeadline) {
        guard (0..<uses.count).contains(number - firstUse) else { return }
        let place = uses.index(uses.startIndex, offsetBy: number - firstUse)
        uses[place].arrivedBy = min(uses[place].arrivedBy, now)
    }

    /// How many slots to reserve now, and how long from now on at the earliest; nil: none now, or some are being
    /// reserved already.
    /// - Parameter wanted: requests that could be made.
    mutating func beginReservation(wanted: Int, at now: NIODeadline) -> Reservation? {
        dropMissed(at: now)
        let wait = clearance(at: now) - now
        guard !isReserving, !isHeldUp, slots.count <= max(batch / 2, slotsOfLead * 3 / 2), wanted > slots.count,
            wait <= max(TimeAmount(Limits.rateLookAhead), lead)
        else { return nil }
        isReserving = true
        let ahead = min(batch, largestBatch - slots.count, wanted - slots.count)
        return Reservation(count: max(1, ahead), notBefore: max(wait, lead))
    }

    /// A slot must not be over before the answer is here, and the answer waits for the commit (of a distant standby,
    /// say): as long as the last one took, and a quarter more.
    private var lead: TimeAmount {
        min(.nanoseconds(databaseTime.roundTrip.nanoseconds * 5 / 4), TimeAmount(Limits.rateLeadMax))
    }

    /// What is used up while a reservation is under way.
    private var slotsOfLead: Int { Int(lead.nanoseconds / interval.nanoseconds) }

    /// Enough to last until the next reservation is here.
    private var largestBatch: Int { max(batchMax, slotsOfLead * 3) }

    struct Reservation: Equatable {
        let count: Int
        let notBefore: TimeAmount
    }

    /// - Parameters:
    ///   - askedAt: before the database was asked.
    ///   - now: when its answer was here.
    mutating func endReservation(
        _ reserved: ReservedSlots, count: Int, askedAt: NIODeadline, at now: NIODeadline
    ) {
        databaseTime.learn(reserved.nowMicroseconds, askedAt: askedAt, answeredAt: now)
        let first = databaseTime.local(reserved.firstMicroseconds)
        batch = missedOfBatch > 0 ? max(1, usedOfBatch) : min(batch * 2, largestBatch)
        (usedOfBatch, missedOfBatch) = (0, 0)
        isReserving = false
        for number in 0..<Int64(count) { slots.append(first + .nanoseconds(interval.nanoseconds * number)) }
    }

    /// The database did not answer.
    mutating func failReservation() {
        isReserving = false
        isHeldUp = true
    }

    /// The database answers again.
    mutating func polled() { isHeldUp = false }

    /// When it is worth looking again; nil: after the reservation that is under way, or the next poll.
    func wakeUp(after now: NIODeadline) -> NIODeadline? {
        let clearance = clearance(at: now)
        if let slot = slots.first { return max(slot, clearance) }
        return isReserving || isHeldUp ? nil : max(now, clearance - TimeAmount(Limits.rateLookAhead))
    }

    /// Nothing is sent for a while: what is reserved goes unused, and it starts small again.
    mutating func rest() {
        slots.removeAll()
        batch = 1
        (usedOfBatch, missedOfBatch) = (0, 0)
    }

    private mutating func dropMissed(at now: NIODeadline) {
        while let slot = slots.first, slot + TimeAmount(Limits.rateLateness) < now {
            slots.removeFirst()
            missedOfBatch += 1
        }
    }

    /// From when on one more request is none too many.
    private func clearance(at now: NIODeadline) -> NIODeadline {
        guard uses.count == limit.count, let oldest = uses.first else { return now }
        return max(now, oldest.arrivedBy + TimeAmount(limit.period))
    }
}
