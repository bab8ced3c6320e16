import NIOCore
import Vocabulary

/// The requests that one lane may make under its integration's `rate`. Pure: time is passed in.
///
/// All daemons reserve slots in one row of the database (`Queue.reserveSlots`), several evenly spaced slots at a time,
/// so the limit holds for all of them together. A slot is for one request, at its time and no later than `rateLateness`
/// after it. A missed slot goes unused, because two requests in the place of one would be a burst. Three things keep
/// the receiver, which counts by its own clock, below the limit:
/// - slots lie a little further apart than the limit asks for (`rateMarginPercent`);
/// - the slots that are held at once last a quarter of a second at most (`rateLookAhead`), while the database answers
///   quickly;
/// - the request that came `count` requests earlier must have arrived a whole period ago. Its arrival is known when it
///   is answered, or assumed `rateArrivalMax` after it was sent.
struct RateSlots {
    /// A request that was made; kept until as many have followed as the limit counts.
    private struct Use {
        /// The request has arrived by then.
        var arrivedBy: NIODeadline
    }

    let limit: RateLimit
    /// The time between two slots.
    let interval: TimeAmount
    /// The most slots that are reserved at once, while the database answers quickly.
    let batchMax: Int
    private var slots = CircularBuffer<NIODeadline>()
    private var uses = CircularBuffer<Use>()
    /// The number of the first of `uses`, counted from the first request ever.
    private var firstUse = 0
    /// Size of the next reservation: twice the last one if no slot of that was missed, else as many as were used.
    private var batch = 1
    private var usedOfBatch = 0
    private var missedOfBatch = 0
    private var isReserving = false
    /// A reservation failed: the next one follows the next poll.
    private var isHeldUp = false
    /// How long the last reservation took.
    private var roundTrip = TimeAmount.zero

    init(_ limit: RateLimit) {
        self.limit = limit
        let period = TimeAmount(limit.period).nanoseconds
        interval = .nanoseconds(period / Int64(limit.count) * Int64(100 + Limits.rateMarginPercent) / 100)
        batchMax = max(1, Int(TimeAmount(Limits.rateLookAhead).nanoseconds / interval.nanoseconds))
    }

    /// Uses a slot up for a request that starts now.
    /// - Returns: the number of the request, for `ended`; nil: none may start now.
    mutating func useSlot(at now: NIODeadline) -> Int? {
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

    /// The request has ended, so it has arrived.
    mutating func ended(_ number: Int, at now: NIODeadline) {
        guard (0..<uses.count).contains(number - firstUse) else { return }
        let place = uses.index(uses.startIndex, offsetBy: number - firstUse)
        uses[place].arrivedBy = min(uses[place].arrivedBy, now)
    }

    /// How many slots to reserve now, and how long from now on at the earliest; nil: none now, or a reservation is
    /// under way.
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

    /// How far ahead a slot must lie to be usable when the answer is here: as long as the last answer took, and a
    /// quarter more. An answer waits for the commit (of a distant standby, for example).
    private var lead: TimeAmount {
        min(.nanoseconds(roundTrip.nanoseconds * 5 / 4), TimeAmount(Limits.rateLeadMax))
    }

    /// Slots that are used up while a reservation is under way.
    private var slotsOfLead: Int { Int(lead.nanoseconds / interval.nanoseconds) }

    /// Enough slots to last until the next reservation is here.
    private var largestBatch: Int { max(batchMax, slotsOfLead * 3) }

    struct Reservation: Equatable {
        let count: Int
        let notBefore: TimeAmount
    }

    /// - Parameters:
    ///   - first: the time of the first slot.
    ///   - askedAt: when the reservation was begun.
    ///   - now: when its answer arrived.
    mutating func endReservation(first: NIODeadline, count: Int, askedAt: NIODeadline, at now: NIODeadline) {
        roundTrip = now - askedAt
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

    /// When it is worth looking again; nil: after the reservation under way, or the next poll.
    func wakeUp(after now: NIODeadline) -> NIODeadline? {
        let clearance = clearance(at: now)
        if let slot = slots.first { return max(slot, clearance) }
        return isReserving || isHeldUp ? nil : max(now, clearance - TimeAmount(Limits.rateLookAhead))
    }

    /// Drops the reserved slots, because nothing is sent for a while; reservations start small again.
    mutating func dropReservedSlots() {
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

    /// The earliest time at which one more request is within the limit.
    private func clearance(at now: NIODeadline) -> NIODeadline {
        guard uses.count == limit.count, let oldest = uses.first else { return now }
        return max(now, oldest.arrivedBy + TimeAmount(limit.period))
    }
}
