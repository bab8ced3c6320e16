import CLibpq

/// One connection to the database on one thread of its own. The thread ends with the last reference.
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

    /// On the thread, so that libpq's connection is closed there.
    isolated deinit { executor.stop() }

    /// Connects; ends within the connect time-out of each host, and what the resolver takes for their names.
    /// - Parameter thread: the thread's name; 15 bytes of it are kept.
    package static func open(
        _ settings: ConnectionSettings, thread: String = "postgres"
    ) async throws(DatabaseError) -> Connection {
        let wakeUp = try WakeUp()
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

    /// False once anything made the connection doubtful: it is closed then, and every call throws `.connectionLost`.
    package nonisolated var isAlive: Bool { monitor.endReason == nil }

    /// Why it is dead, for a person.
    package nonisolated var endReason: String? { monitor.endReason }

    /// What the thread is at; nil while it rests.
    package nonisolated var activity: ConnectionActivity? { monitor.activity }

    /// Runs `body` on the connection's thread: one hop for all that it does. Nothing can be running beside it.
    package func withSession<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value {
        guard let value = try withSessionIfAlive(body) else {
            throw .connectionLost(reason: monitor.endReason ?? "it was closed")
        }
        return value
    }

    /// The same; nil, and `body` was not called, if the connection was gone before.
    func withSessionIfAlive<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value? {
        monitor.starts(deadline: .now + wire.settings.statementDeadline)
        defer { monitor.rests() }
        guard wire.standsIdle() else { return nil }
        defer { wire.endUnlessIdle() }
        return try body(Session(wire: wire))
    }

    /// Ends a `waitForNotification` that runs, or else the next one. Any thread may call it.
    package nonisolated func interrupt() { wakeUp.raise() }

    /// Closes the connection, after what runs on it.
    package func close() { wire.end("it was closed") }
}

extension Wire {
    /// A session that was left inside a transaction would hand it to the next caller.
    fileprivate func endUnlessIdle() {
        if isOpen, transactionStatus != PQTRANS_IDLE { end("it was left inside a transaction") }
    }
}
