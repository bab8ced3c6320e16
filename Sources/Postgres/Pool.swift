import Synchronization

/// A fixed number of connections, opened in advance and reopened when lost. `PoolMachine` decides; the pool performs
/// its actions.
package final class Pool: Sendable {
    /// Limits for waiting callers: `limit` for the wait, at most `waitersMax` at once.
    package struct Waiting: Sendable {
        package let waitersMax: Int
        package let limit: Duration

        package init(waitersMax: Int, limit: Duration) {
            self.waitersMax = waitersMax
            self.limit = limit
        }
    }

    fileprivate typealias Answer = Result<Lease, DatabaseError>

    /// A slot and its connection, in use by one caller.
    fileprivate struct Lease: Sendable {
        let slot: Int
        let connection: Connection
    }

    fileprivate struct State {
        var settings: ConnectionSettings
        var machine: PoolMachine
        var connections: [Connection?]
        var waiters: [UInt64: CheckedContinuation<Answer, Never>] = [:]
        var nextWaiter: UInt64 = 0
        /// Changes to publish, in the order in which they were decided, by one thread at a time.
        var news: [PoolState] = []
        var isPublishing = false
        var retry: Task<Void, Never>?
        var closers: [CheckedContinuation<Void, Never>] = []
    }

    /// An action performed outside the lock.
    fileprivate enum Effect {
        case open(slot: Int)
        case retry(after: Duration)
        case answer(CheckedContinuation<Answer, Never>, Answer)
        case close(Connection)
        case drained(CheckedContinuation<Void, Never>)
    }

    /// Checks a new connection; returns why it must not be used.
    package typealias Admission = @Sendable (Connection) async throws(DatabaseError) -> String?

    private let admission: Admission
    private let waiting: Waiting
    private let onStateChange: @Sendable (PoolState) -> Void
    private let state: Mutex<State>

    /// - Parameters:
    ///   - backoff: the wait before the second attempt to reach a lost database, and the longest wait.
    ///   - admission: checks each new connection; a rejected one counts as a failed opening.
    ///   - onStateChange: called in order, on any thread; must not block.
    package init(
        _ settings: ConnectionSettings, size: Int, waiting: Waiting, backoff: ClosedRange<Duration>,
        admission: @escaping Admission = { _ in nil },
        onStateChange: @escaping @Sendable (PoolState) -> Void = { _ in }
    ) {
        self.waiting = waiting
        self.admission = admission
        self.onStateChange = onStateChange
        state = Mutex(
            State(
                settings: settings, machine: PoolMachine(size: size, waitersMax: waiting.waitersMax, backoff: backoff),
                connections: Array(repeating: nil, count: size)))
    }

    /// Starts opening the connections; returns at once.
    package func start() { decide { $0.machine.start() } }

    /// What the next connection is opened by.
    package var settings: ConnectionSettings { state.withLock { $0.settings } }

    /// Opens every further connection by other settings, which must lead to the same database. Those that are open stay
    /// until they are lost. Without any, they are tried at once.
    package func use(_ settings: ConnectionSettings) {
        decide { state in
            state.settings = settings
            return state.machine.isReachable ? [] : state.machine.retryDue()
        }
    }

    /// Whether at least one connection is open.
    package var isReachable: Bool { state.withLock { $0.machine.isReachable } }

    /// The earliest deadline of the running waits: if it is long past, a thread is stuck.
    package var earliestDeadline: ContinuousClock.Instant? {
        state.withLock { $0.connections.compactMap { $0?.deadline }.min() }
    }

    /// Runs `body` on a free connection's thread. Waits for one in turn, up to the wait limit (`.timedOut`); fails at
    /// once with `.connectFailed` while the database is down or too many callers wait. `body` runs at most once.
    /// Cancelling the task does not stop it: a statement that was sent is completed.
    package func withSession<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) async throws(DatabaseError) -> Value {
        while true {
            let lease = try await acquire()
            let outcome: Value?
            do throws(DatabaseError) {
                outcome = try await lease.connection.withSessionIfAlive(body)
            } catch {
                release(lease)
                throw error
            }
            release(lease)
            // The connection had died while idle and nothing was sent: try another one, or wait for it.
            if let outcome { return outcome }
        }
    }

    /// Closes idle connections at once and busy ones when their callers are done, then returns. Further callers fail.
    package func close() async {
        decide { $0.machine.close() }
        state.withLock { $0.retry }?.cancel()
        await withCheckedContinuation { continuation in
            decide { state in
                state.closers.append(continuation)
                return []
            }
        }
    }

    // MARK: Callers

    private func acquire() async throws(DatabaseError) -> Lease {
        var timer: Task<Void, Never>?
        let answer: Answer = await withCheckedContinuation { continuation in
            let (waiter, answer) = state.withLock { $0.enter(continuation) }
            if let answer { return continuation.resume(returning: answer) }
            timer = Task {
                guard (try? await Task.sleep(for: waiting.limit)) != nil else { return }
                expire(waiter)
            }
        }
        timer?.cancel()
        return try answer.get()
    }

    private func expire(_ waiter: UInt64) {
        let continuation = state.withLock { state in
            state.machine.expire(waiter: waiter) ? state.waiters.removeValue(forKey: waiter) : nil
        }
        continuation?.resume(returning: .failure(.timedOut(after: waiting.limit)))
    }

    private func release(_ lease: Lease) {
        decide { state in
            let lost = lease.connection.endReason
            if lost != nil { state.connections[lease.slot] = nil }
            return state.machine.release(slot: lease.slot, lost: lost)
        }
    }

    // MARK: Doing what the machine decided

    /// Passes an event to the machine and performs the resulting actions outside the lock.
    private func decide(_ event: (inout State) -> [PoolMachine.Action]) {
        let effects = state.withLock { state in
            let actions = event(&state)
            return actions.compactMap { state.effect(of: $0) } + state.drained()
        }
        for effect in effects { perform(effect) }
        publish()
    }

    private func perform(_ effect: Effect) {
        switch effect {
        case .open(let slot): Task { await open(slot) }
        case .answer(let continuation, let answer): continuation.resume(returning: answer)
        case .close(let connection): Task { await connection.close() }
        case .drained(let continuation): continuation.resume()
        case .retry(let interval):
            let retry = Task {
                guard (try? await Task.sleep(for: interval)) != nil else { return }
                decide { $0.machine.retryDue() }
            }
            state.withLock { $0.retry = retry }
        }
    }

    private func open(_ slot: Int) async {
        do throws(DatabaseError) {
            let connection = try await admitted(slot)
            decide { state in
                state.connections[slot] = connection
                return state.machine.opened(slot: slot)
            }
        } catch {
            let reason = if case .connectFailed(let reason) = error { reason } else { error.description }
            decide { $0.machine.openFailed(slot: slot, reason: reason, jitter: Double.random(in: 0...1)) }
        }
    }

    /// Opens and checks a connection. One that is lost during the check says nothing about the server, so another one
    /// is opened, once.
    private func admitted(_ slot: Int) async throws(DatabaseError) -> Connection {
        var isFirst = true
        while true {
            let connection = try await Connection.open(settings, thread: "postgres-\(slot)")
            do throws(DatabaseError) {
                guard let objection = try await admission(connection) else { return connection }
                await connection.close()
                throw .connectFailed(reason: objection)
            } catch {
                guard isFirst, case .connectionLost = error else { throw error }
                isFirst = false
            }
        }
    }

    /// Publishes the changes in order. A thread that finds another one publishing leaves its changes to that one.
    private func publish() {
        var isMine = false
        while true {
            let next = state.withLock { state -> PoolState? in
                if !isMine, state.isPublishing { return nil }
                isMine = !state.news.isEmpty
                state.isPublishing = isMine
                return isMine ? state.news.removeFirst() : nil
            }
            guard let next else { return }
            onStateChange(next)
        }
    }
}

extension Pool.State {
    /// Requests a slot; without an answer `continuation` is kept and resumed later.
    fileprivate mutating func enter(
        _ continuation: CheckedContinuation<Pool.Answer, Never>
    ) -> (waiter: UInt64, Pool.Answer?) {
        nextWaiter += 1
        switch machine.acquire(waiter: nextWaiter) {
        case .use(let slot): return (nextWaiter, .success(lease(slot)))
        case .refused(let error): return (nextWaiter, .failure(error))
        case .wait:
            waiters[nextWaiter] = continuation
            return (nextWaiter, nil)
        }
    }

    /// The effect of `action` outside the lock; the part that needs the lock is done here.
    fileprivate mutating func effect(of action: PoolMachine.Action) -> Pool.Effect? {
        switch action {
        case .open(let slot): return .open(slot: slot)
        case .retry(let interval): return .retry(after: interval)
        case .serve(let waiter, let slot):
            return waiters.removeValue(forKey: waiter).map { .answer($0, .success(lease(slot))) }
        case .fail(let waiter, let error):
            return waiters.removeValue(forKey: waiter).map { .answer($0, .failure(error)) }
        case .publish(let change):
            news.append(change)
            return nil
        case .close(let slot):
            defer { connections[slot] = nil }
            return connections[slot].map { .close($0) }
        }
    }

    /// Resumes the callers of `close` once no caller holds a connection.
    fileprivate mutating func drained() -> [Pool.Effect] {
        guard machine.isClosed, !machine.slots.contains(.busy) else { return [] }
        defer { closers.removeAll() }
        return closers.map { .drained($0) }
    }

    private func lease(_ slot: Int) -> Pool.Lease {
        guard let connection = connections[slot] else { preconditionFailure("an idle slot has a connection") }
        return Pool.Lease(slot: slot, connection: connection)
    }
}
