internal import Glibc
internal import Linux
internal import Synchronization

/// A bounded queue in front of a sink that may be slow; a thread of its own writes the entries.
///
/// A caller that logs never waits for the sink, even if journald is stopped or nobody reads the pipe. `post` holds a
/// lock for a few instructions only. An entry that does not fit is dropped and counted. `tick` reports the count; its
/// entries go straight to the sink, so a full queue cannot drop them.
///
///     open ──close()──▶ closing ──queue empty, last tick written──▶ closed
///
/// The thread retains this object until `close` ends it. If the sink never returns, the thread lives until the process
/// ends.
package final class JournalWriter<Entry: Sendable>: Sendable {
    /// Writes a batch in order and returns how many of its entries could not be written; may block.
    package typealias Sink = @Sendable ([Entry]) -> Int
    /// Returns the entries to write at a tick. The writer's thread calls it every `tickInterval` with the number of
    /// entries dropped since the last call, and once more at the end with `isLast`.
    package typealias Tick = @Sendable (_ dropped: Int, _ isLast: Bool) -> [Entry]

    private struct State {
        /// Entries `head...` wait; those before it are taken (removed in bulk, because an array only shrinks at its
        /// end).
        var entries: [Entry?] = []
        var head = 0
        var dropped = 0
        var droppedTotal = 0
        var isSleeping = false
        var isClosing = false
    }

    private let queueEntriesMax: Int
    private let batchEntriesMax: Int
    private let tickInterval: Duration
    private let sink: Sink
    private let tick: Tick
    private let state = Mutex(State())
    private let wakeUp: WakeUp
    private let closed: WakeUp

    /// Starts the thread. `queueEntriesMax` limits the entries that wait, `batchEntriesMax` those that the sink gets at
    /// once.
    package init(
        queueEntriesMax: Int, batchEntriesMax: Int, tickInterval: Duration,
        sink: @escaping Sink, tick: @escaping Tick
    ) throws(JournalWriterFailure) {
        precondition(queueEntriesMax > 0 && batchEntriesMax > 0, "a writer needs room for an entry")
        self.queueEntriesMax = queueEntriesMax
        self.batchEntriesMax = batchEntriesMax
        self.tickInterval = tickInterval
        self.sink = sink
        self.tick = tick
        do {
            wakeUp = try WakeUp()
            closed = try WakeUp()
            try DetachedThread.start { self.run() }
        } catch {
            throw JournalWriterFailure(description: "cannot start the journal's writer: \(error)")
        }
    }

    /// Queues an entry, or drops and counts it. Never blocks on the sink.
    package func post(_ entry: Entry) {
        let mustWake = state.withLock { state in
            guard !state.isClosing, state.entries.count - state.head < queueEntriesMax else {
                state.dropped += 1
                state.droppedTotal += 1
                return false
            }
            state.entries.append(entry)
            defer { state.isSleeping = false }
            return state.isSleeping
        }
        if mustWake { wakeUp.raise() }
    }

    /// Entries lost since the start, dropped or not written.
    package var droppedTotal: Int { state.withLock { $0.droppedTotal } }

    /// Accepts no more entries and waits until all queued ones are written. False: that took longer than `limit`.
    package func close(within limit: Duration) -> Bool {
        state.withLock { $0.isClosing = true }
        wakeUp.raise()
        guard closed.wait(atMost: limit) else { return false }
        // A second close must find it closed, too.
        closed.raise()
        return true
    }

    private func run() {
        var nextTick = ContinuousClock.now + tickInterval
        while true {
            let (batch, isClosing) = takeBatch()
            write(batch)
            if isClosing && batch.isEmpty { break }
            if ContinuousClock.now >= nextTick {
                writeTick(isLast: false)
                nextTick = .now + tickInterval
            }
            if batch.isEmpty { _ = wakeUp.wait(atMost: nextTick - .now) }
        }
        writeTick(isLast: true)
        closed.raise()
    }

    /// Takes up to `batchEntriesMax` entries. If there are none, the next `post` wakes the thread.
    private func takeBatch() -> (batch: [Entry], isClosing: Bool) {
        state.withLock { state in
            let count = min(batchEntriesMax, state.entries.count - state.head)
            var batch: [Entry] = []
            batch.reserveCapacity(count)
            for index in state.head..<state.head + count {
                if let entry = state.entries[index].take() { batch.append(entry) }
            }
            state.head += count
            if state.head == state.entries.count {
                state.entries.removeAll(keepingCapacity: true)
                state.head = 0
            } else if state.head > state.entries.count / 2 {
                state.entries.removeFirst(state.head)
                state.head = 0
            }
            state.isSleeping = batch.isEmpty && !state.isClosing
            return (batch, state.isClosing)
        }
    }

    private func write(_ batch: [Entry]) {
        guard !batch.isEmpty else { return }
        let lost = sink(batch)
        if lost > 0 { count(lost: lost) }
    }

    private func writeTick(isLast: Bool) {
        let dropped = state.withLock { state in
            defer { state.dropped = 0 }
            return state.dropped
        }
        let entries = tick(dropped, isLast)
        guard !entries.isEmpty else { return }
        // A report that was lost is repeated by the next tick.
        if sink(entries) > 0 { state.withLock { $0.dropped += dropped } }
    }

    private func count(lost: Int) {
        state.withLock { state in
            state.dropped += lost
            state.droppedTotal += lost
        }
    }
}

/// The thread, or a descriptor for its wake-ups, cannot be had: the process has run out of them and cannot serve
/// anyway.
package struct JournalWriterFailure: Error, CustomStringConvertible {
    package let description: String
}
