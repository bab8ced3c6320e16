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
        /// How often `settings` were replaced; and of each slot's connection, how often they had been when it began to
        /// open.
        var generation = 0
        var generations: [Int]
        /// Connections of generations before do not serve.
        var oldestServing = 0
        /// How often the last open connection was lost.
        var losses = 0
        var waiters: [UInt64: CheckedContinuation<Answer, Never>] = [:]
        var nextWaiter: UInt64 = 0
        /// Changes to publish, in the order in which they were decided, by one thread at a time.
        var news: [PoolState] = []
        var isPublishing = false
        var retry: Task<Void, Never>?
        var closers: [CheckedContinuation<Void, Never>] = []
        /// Connections that are being closed.
        var closing = 0
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
                connections: Array(repeating: nil, count: size), generations: Array(repeating: 0, count: size)))
    }

    /// Starts opening the connections; returns at once.
    package func start() { decide { $0.machine.start() } }

    /// What the next connection is opened by.
    package var settings: ConnectionSettings { state.withLock { $0.settings } }

    /// Opens every further connection by other settings, which must lead to the same database; one that is just being
    /// opened is opened anew. Those that are open stay until they are lost. Without any, they are tried at once.
    /// - Parameter alone: those that are open are closed as soon as no caller has them, because it is not proven that
    ///   both settings lead to the same server.
    package func use(_ settings: ConnectionSettings, alone: Bool = false) {
        decide { state in
            state.settings = settings
            state.generation += 1
            var actions: [PoolMachine.Action] = []
            if alone {
                state.oldestServing = state.generation
                for slot in state.connections.indices { actions += state.machine.replace(slot: slot) }
            }
            return actions + (state.machine.isReachable ? [] : state.machine.retryDue())
        }
    }

    /// Whether at least one connection is open.
    package var isReachable: Bool { contact != nil }

    /// Without a break since it was the same number, at least one connection has been open; nil: none is.
    package var contact: Int? { state.withLock { $0.machine.isReachable ? $0.losses : nil } }

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

    /// Closes idle connections at once, busy ones when their callers are done and those that are being opened when that
    /// has ended, then returns: no thread of theirs runs any more, in libraries that the end of the process takes down.
    /// Further callers fail.
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
            if let lost = lease.connection.endReason {
                state.connections[lease.slot] = nil
                return state.machine.release(slot: lease.slot, lost: lost)
            }
            guard state.generations[lease.slot] < state.oldestServing else {
                return state.machine.release(slot: lease.slot, lost: nil)
            }
            return [.close(slot: lease.slot)] + state.machine.release(slot: lease.slot, lost: "replaced")
        }
    }

    // MARK: Doing what the machine decided

    /// Passes an event to the machine and performs the resulting actions outside the lock.
    private func decide(_ event: (inout State) -> [PoolMachine.Action]) {
        let effects = state.withLock { state in
            let wasReachable = state.machine.isReachable
            let actions = event(&state)
            if wasReachable, !state.machine.isReachable { state.losses += 1 }
            return actions.compactMap { state.effect(of: $0) } + state.drained()
        }
        for effect in effects { perform(effect) }
        publish()
    }

    private func perform(_ effect: Effect) {
        switch effect {
        case .open(let slot): Task { await open(slot) }
        case .answer(let continuation, let answer): continuation.resume(returning: answer)
        case .close(let connection):
            Task {
                await connection.close()
                decide { state in
                    state.closing -= 1
                    return []
                }
            }
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
        while true {
            let (settings, generation) = state.withLock { ($0.settings, $0.generation) }
            let opened: Result<Connection, DatabaseError>
            do throws(DatabaseError) {
                opened = .success(try await admitted(slot, settings))
            } catch {
                opened = .failure(error)
            }
            if finish(slot, opened, of: generation) { return }
            // The settings were replaced meanwhile, and may have led to another server.
            if case .success(let connection) = opened { await connection.close() }
        }
    }

    /// Takes what came of an opening.
    /// - Returns: false: the settings were replaced meanwhile, so nothing was taken.
    private func finish(_ slot: Int, _ opened: Result<Connection, DatabaseError>, of generation: Int) -> Bool {
        var isTaken = false
        decide { state in
            guard state.generation == generation || state.machine.isClosed else { return [] }
            isTaken = true
            switch opened {
            case .success(let connection):
                state.connections[slot] = connection
                state.generations[slot] = generation
                return state.machine.opened(slot: slot)
            case .failure(let error):
                let reason = if case .connectFailed(let reason) = error { reason } else { error.description }
                return state.machine.openFailed(slot: slot, reason: reason, jitter: Double.random(in: 0...1))
            }
        }
        return isTaken
    }

    /// Opens and checks a connection. One that is lost during the check says nothing about the server, so another one
    /// is opened, once.
    private func admitted(_ slot: Int, _ settings: ConnectionSettings) async throws(DatabaseError) -> Connection {
        var isFirst = true
        while true {
            let connection = try await Connection.open(settings, thread: "postgres-\(slot)")
            do throws(DatabaseError) {
                guard let problem = try await admission(connection) else { return connection }
                throw .connectFailed(reason: problem)
            } catch {
                await connection.close()
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
            guard let connection = connections[slot] else { return nil }
            connections[slot] = nil
            closing += 1
            return .close(connection)
        }
    }

    /// Resumes the callers of `close` once no connection is used, opened or closed.
    fileprivate mutating func drained() -> [Pool.Effect] {
        guard machine.isClosed, closing == 0, machine.slots.allSatisfy({ $0 == .vacant }) else { return [] }
        defer { closers.removeAll() }
        return closers.map { .drained($0) }
    }

    private func lease(_ slot: Int) -> Pool.Lease {
        guard let connection = connections[slot] else { preconditionFailure("an idle slot has a connection") }
        return Pool.Lease(slot: slot, connection: connection)
    }
}
