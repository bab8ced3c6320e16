import NIOCore

/// Assigns connections to requests. Pure: no I/O and no clock. It counts the connections (opening, busy or idle)
/// against the limit; the client opens and closes them.
struct ConnectionPool<Connection: AnyObject, Request: AnyObject> {
    enum Demand {
        case use(Connection)
        case open
        case wait
        case refuse
    }

    enum Release {
        /// It is idle now.
        case keep
        case serve(Request)
        /// Close it and call `slotFreed`.
        case close
    }

    private let connectionsMax: Int
    private let waitingMax: Int
    /// The last one used is used next, so that the others stay idle long enough to be closed.
    private var idle: [Connection] = []
    private var waiting = CircularBuffer<Request>()
    private(set) var open = 0
    private(set) var isClosing = false

    init(connectionsMax: Int, waitingMax: Int) {
        precondition(connectionsMax > 0, "a pool needs a connection")
        self.connectionsMax = connectionsMax
        self.waitingMax = waitingMax
    }

    var isDrained: Bool { isClosing && open == 0 && waiting.isEmpty }

    mutating func demand(for request: Request) -> Demand {
        if isClosing { return .refuse }
        if let connection = idle.popLast() { return .use(connection) }
        if open < connectionsMax {
            open += 1
            return .open
        }
        if waiting.count >= waitingMax { return .refuse }
        waiting.append(request)
        return .wait
    }

    mutating func release(_ connection: Connection, reusable: Bool) -> Release {
        if !reusable { return .close }
        if let request = waiting.popFirst() { return .serve(request) }
        if isClosing { return .close }
        idle.append(connection)
        return .keep
    }

    /// A connection is gone. The request that waits longest gets its place: open a connection for the result.
    mutating func slotFreed() -> Request? {
        precondition(open > 0, "a connection was counted as gone twice")
        if let request = waiting.popFirst() { return request }
        open -= 1
        return nil
    }

    /// An idle connection is gone or about to be; call `slotFreed` too.
    mutating func forget(idle connection: Connection) {
        if let index = idle.lastIndex(where: { $0 === connection }) { idle.remove(at: index) }
    }

    mutating func forget(waiting request: Request) {
        if let index = waiting.firstIndex(where: { $0 === request }) { waiting.remove(at: index) }
    }

    /// Accepts no new request; the idle connections are returned to be closed, each with a `slotFreed`.
    mutating func close() -> [Connection] {
        isClosing = true
        defer { idle.removeAll() }
        return idle
    }

    /// Removes and returns the requests that wait, to end them.
    mutating func takeWaiting() -> [Request] {
        defer { waiting.removeAll() }
        return Array(waiting)
    }
}
