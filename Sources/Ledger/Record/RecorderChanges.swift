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
                while !Task.isCancelled, await continueChange() {}
            }
            group.cancelAll()
        }
    }

    /// Applies one change to its next purchases.
    /// - Returns: whether there may be more to do.
    @discardableResult
    func continueChange() async -> Bool {
        do {
            let recorder = try recorder(copiedEventsMin: copiedEventsMin)
            let skipped = unfinished.skipped
            let current = Mutex<Int64?>(nil)
            do {
                let committed = try await transact(recorder, events: 0) { session, reserved throws(DatabaseError) in
                    var row: Int64?
                    defer { current.withLock { $0 = row } }
                    return try ChangeContinuation(recorder: recorder)
                        .run(without: skipped, on: session, row: &row, reserved: &reserved)
                        ?? RecordEvents.Committed()
                }
                let row = current.withLock { $0 }
                await releaseBlocked(committed.behind)
                for happening in committed.happenings { observe(happening) }
                return row != nil
            } catch let error as DatabaseError where error.mayBeOneEvent {
                // It would fail again and delay the changes after it.
                guard let row = current.withLock({ $0 }) else { throw error }
                unfinished.skip(row)
                observe(
                    .warning("a change of a holder (row \(row) of holder_changes) is not applied further: \(error)"))
                return true
            }
        } catch let error as DatabaseError where !error.isConnectionLevel && !error.isCollision {
            observe(.warning("a change of a holder is applied further later: \(error)"))
            return false
        } catch {
            // A temporary failure of the database; the next wake-up continues.
            return false
        }
    }
}

/// The wake-up for changes that are not applied to all purchases yet, and the rows of those that failed.
final class UnfinishedChanges: Sendable {
    let wakeUps: AsyncStream<Void>
    private let source: AsyncStream<Void>.Continuation
    private let failed = Mutex<Set<Int64>>([])

    init() { (wakeUps, source) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    func wake() { source.yield() }

    /// Rows of changes that failed in this process: tried again after a restart.
    var skipped: Set<Int64> { failed.withLock { $0 } }

    func skip(_ row: Int64) { _ = failed.withLock { $0.insert(row) } }
}
