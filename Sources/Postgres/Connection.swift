import CLibpq
import Linux

/// One connection to the database on its own thread. The thread ends with the last reference.
package actor Connection {
    private nonisolated let executor: ThreadExecutor
    private nonisolated let wakeUp: WakeUp
    private nonisolated let monitor: ConnectionMonitor
    private let wire: Wire

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private init(settings: ConnectionSettings, executor: ThreadExecutor, wakeUp: WakeUp) {
        let monitor = ConnectionMonitor()
        self.executor = executor
        self.wakeUp = wakeUp
        self.monitor = monitor
        wire = Wire(settings: settings, wakeUp: wakeUp, monitor: monitor)
    }

    /// Runs on the thread, so that libpq's connection is closed there.
    isolated deinit { executor.stop() }

    /// Connects within the connect time-out of each host, plus the time that the resolver takes for their names.
    /// - Parameter thread: the thread's name, cut to 15 bytes.
    package static func open(
        _ settings: ConnectionSettings, thread: String = "postgres"
    ) async throws(DatabaseError) -> Connection {
        let wakeUp = try WakeUp.ofConnection()
        let executor = try ThreadExecutor.start(name: thread)
        let connection = Connection(settings: settings, executor: executor, wakeUp: wakeUp)
        try await connection.connect()
        return connection
    }

    private func connect() throws(DatabaseError) {
        monitor.starts(deadline: .now + wire.settings.connectTimeout)
        defer { monitor.rests() }
        try wire.open()
    }

    /// False once anything made the connection doubtful; it is closed then, and every call throws `.connectionLost`.
    package nonisolated var isAlive: Bool { monitor.endReason == nil }

    /// Why the connection is dead, for a person.
    package nonisolated var endReason: String? { monitor.endReason }

    /// End of the thread's current wait for the server; nil while no call runs.
    package nonisolated var deadline: ContinuousClock.Instant? { monitor.deadline }

    /// Runs `body` on the connection's thread: one hop for everything in it, and nothing else runs meanwhile.
    package func withSession<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value {
        guard let value = try withSessionIfAlive(body) else {
            throw .connectionLost(reason: monitor.endReason ?? "it was closed")
        }
        return value
    }

    /// Like `withSession`, but returns nil without calling `body` if the connection was already dead.
    func withSessionIfAlive<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value? {
        monitor.starts(deadline: .now + wire.settings.statementDeadline)
        defer { monitor.rests() }
        guard wire.standsIdle() else { return nil }
        defer { wire.endUnlessIdle() }
        return try body(Session(wire: wire))
    }

    /// Ends the running `waitForNotification`, or else the next one. Any thread may call it.
    package nonisolated func interrupt() { wakeUp.raise() }

    /// Closes the connection after the work in progress.
    package func close() { wire.end("it was closed") }
}

extension Wire {
    /// Ends a session that was left inside a transaction, because the next caller would get that transaction.
    fileprivate func endUnlessIdle() {
        if isOpen, transactionStatus != PQTRANS_IDLE { end("it was left inside a transaction") }
    }
}
