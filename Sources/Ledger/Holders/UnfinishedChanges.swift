import Postgres
import Synchronization
import Vocabulary

/// Continues changes of holders that are not applied to all purchases yet: after each commit that leaves one, and from
/// time to time, for those that a daemon left unfinished when it ended.
extension Recorder {
    /// Continues changes until the task is cancelled.
    func continueChanges() async {
        unfinished.wake()
        await withTaskGroup { group in
            group.addTask {
                while (try? await Task.sleep(for: Limits.changePollInterval)) != nil { unfinished.wake() }
            }
            for await _ in unfinished.wakeUps {
                // One time for the whole round: what fails in it waits for a later one.
                let time = ContinuousClock.now
                while !Task.isCancelled, await continueChange(at: time) {}
            }
            group.cancelAll()
        }
    }

    /// Applies one change to its next purchases.
    /// - Parameter time: changes whose pause lasts longer are left out.
    /// - Returns: whether there may be more to do.
    @discardableResult
    func continueChange(at time: ContinuousClock.Instant = .now) async -> Bool {
        let current = Mutex<Int64?>(nil)
        do {
            let committed = try await applyFurther(at: time) { row in current.withLock { $0 = row } }
            await unblockSuccessors(of: committed.blocked)
            for observation in committed.observations { observe(observation) }
            report(committed.leftOut)
            guard let row = current.withLock({ $0 }) else { return false }
            unfinished.advanced(row)
            return true
        } catch let error as DatabaseError where error.mayBeOneEvent || error.isTimeout || error.isServerLimit {
            guard let row = current.withLock({ $0 }) else {
                observe(.warning("moving a holder's remaining purchases was postponed: \(error)"))
                return false
            }
            // It would delay the changes after it.
            let pause = unfinished.postpone(row)
            observe(
                .warning(
                    """
                    a change of a holder (row \(row) of holder_changes) is not applied to all purchases yet; it is \
                    tried again after \(pause) at the earliest: \(error)
                    """))
            return true
        } catch {
            // A temporary failure of the database; the next wake-up continues.
            return false
        }
    }

    /// - Parameter found: called with the row of the change that is applied further, or nil.
    private func applyFurther(
        at time: ContinuousClock.Instant, found: @escaping @Sendable (Int64?) -> Void
    ) async throws -> BatchRecording.Committed {
        let skipped = unfinished.skipped(at: time)
        func apply(_ mode: WriteMode) async throws -> BatchRecording.Committed {
            let recording = try recording(mode)
            return try await transact(recording, events: 0) { session, reserved throws(DatabaseError) in
                var row: Int64?
                defer { found(row) }
                return try ChangeContinuation(recording: recording)
                    .run(without: skipped, on: session, row: &row, reserved: &reserved) ?? BatchRecording.Committed()
            }
        }
        do {
            return try await apply(WriteMode(events: 1, copiedEventsMin: copiedEventsMin))
        } catch let error as DatabaseError where error.isSequenceBehind {
            await pool.catchUpSequences()
            return try await apply(.insertIfAbsent)
        } catch let error as DatabaseError where error.isThereAlready {
            return try await apply(.insertIfAbsent)
        }
    }

    /// Reports stored changes that cannot be read, each once. They are not continued in this process.
    func report(_ leftOut: [Int64: HolderChangeRow.Unreadable]) {
        for (row, reason) in leftOut.sorted(by: { $0.key < $1.key }) where unfinished.skip(row) {
            observe(.warning("\(reason)"))
        }
    }
}

/// The wake-up for changes that are not applied to all purchases yet, and the rows of those that failed.
final class UnfinishedChanges: Sendable {
    /// A change whose next step failed.
    private struct Failed {
        let pause: Duration
        let dueAt: ContinuousClock.Instant
    }

    private struct State {
        var unreadable: Set<Int64> = []
        var failed: [Int64: Failed] = [:]
    }

    let wakeUps: AsyncStream<Void>
    private let source: AsyncStream<Void>.Continuation
    private let state = Mutex(State())

    init() { (wakeUps, source) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    func wake() { source.yield() }

    /// Rows of changes that are not to be continued at that time.
    func skipped(at time: ContinuousClock.Instant) -> Set<Int64> {
        state.withLock { state in state.unreadable.union(state.failed.filter { $0.value.dueAt > time }.keys) }
    }

    /// The change cannot be read: it is tried again after a restart.
    /// - Returns: false if that is known.
    func skip(_ row: Int64) -> Bool { state.withLock { $0.unreadable.insert(row).inserted } }

    /// A step of the change failed, for a reason that may pass.
    /// - Returns: the pause until it is tried again, longer each time.
    func postpone(_ row: Int64) -> Duration {
        let bounds = Limits.changeRetry
        return state.withLock { state in
            let pause = state.failed[row].map { min($0.pause * 4, bounds.upperBound) } ?? bounds.lowerBound
            state.failed[row] = Failed(pause: pause, dueAt: .now + pause)
            return pause
        }
    }

    /// A step of the change was applied.
    func advanced(_ row: Int64) { state.withLock { $0.failed[row] = nil } }
}
