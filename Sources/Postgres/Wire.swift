import CLibpq
import Glibc

/// One libpq connection in non-blocking use: send, flush, poll(2) on the socket up to a deadline, read. It lives on its
/// connection's thread alone.
///
/// In doubt about a connection, close it: whatever goes wrong below the level of an SQL error ends the wire, and an
/// ended wire answers every call with `.connectionLost`. It is never repaired.
final class Wire {
    let settings: ConnectionSettings
    let wakeUp: WakeUp
    let monitor: ConnectionMonitor
    let notices = Notices()
    var parameters = ParameterBuffer()
    /// What a batch copies into a table, kept for its memory.
    var copyRows = CopyRows()
    /// The SQL of the statements that the server has prepared, by name.
    var prepared: [String: String] = [:]
    /// Sent, and not answered yet: then libpq is in pipeline mode.
    var posted: [PostedStatement] = []
    /// Of their parameters.
    var postedBytes = 0
    var planning = SessionPlanning()
    /// Of the copy that runs, the bytes since the socket took all there was.
    var copyBytes = 0
    private var handle: ConnectionHandle?

    init(settings: ConnectionSettings, wakeUp: WakeUp, monitor: ConnectionMonitor) {
        self.settings = settings
        self.wakeUp = wakeUp
        self.monitor = monitor
    }

    func adopt(_ handle: consuming ConnectionHandle) { self.handle = consume handle }

    /// libpq's connection, or the reason why there is none.
    func pointer() throws(DatabaseError) -> OpaquePointer {
        guard let pointer = handle?.pointer else { throw .connectionLost(reason: monitor.endReason ?? "it was closed") }
        return pointer
    }

    var isOpen: Bool { handle != nil }

    /// Unknown once the connection is closed.
    var transactionStatus: PGTransactionStatusType {
        guard let pointer = handle?.pointer else { return PQTRANS_UNKNOWN }
        return PQtransactionStatus(pointer)
    }

    /// Closes the connection at once. The first reason stays.
    func end(_ reason: String) {
        handle = nil
        posted = []
        postedBytes = 0
        monitor.end(reason)
    }

    /// Ends the wire with what libpq says of it.
    func lost() -> DatabaseError {
        var reason = monitor.endReason ?? "it was closed"
        if let pointer = handle?.pointer { reason = oneLine(String(cString: PQerrorMessage(pointer))) }
        if let fatal = notices.fatal { reason = "\(fatal); \(reason)" }
        end(reason)
        return .connectionLost(reason: reason)
    }

    // MARK: One command

    /// Sends a command and reads all of its results; the last one is returned. What was posted is answered before.
    /// - Parameter statement: the statement's name, for a refusal.
    func roundTrip(
        statement: String?, within limit: Duration, send: (OpaquePointer) -> Int32
    ) throws(DatabaseError) -> ResultHandle {
        try collect()
        let deadline = begin(limit)
        notices.clear()
        guard send(try pointer()) == 1 else { throw lost() }
        try flush(deadline)
        var last: ResultHandle?
        var refusal: Refusal?
        do throws(DatabaseError) {
            while let result = try nextResult(deadline) {
                if let error = try failure(of: result, statement: statement) { refusal = refusal ?? error }
                last = consume result
            }
        } catch {
            // A FATAL that came before the end says more than the end.
            guard let refusal, case .connectionLost = error else { throw error }
            throw .connectionLost(reason: "\(refusal.sqlState) \(refusal.message)")
        }
        if let refusal { throw judge(refusal) }
        guard let result = consume last else { throw doubt("a command without a result") }
        return result
    }

    /// Starts the clock of one answer.
    func begin(_ limit: Duration) -> Deadline {
        let deadline = Deadline(limit)
        monitor.waits(until: deadline.instant)
        return deadline
    }

    /// Hands libpq's buffer to the socket. Reads meanwhile: a server that cannot get rid of its answer stops reading.
    func flush(_ deadline: Deadline) throws(DatabaseError) {
        while true {
            switch PQflush(try pointer()) {
            case 0: return
            case 1:
                let readiness = try ready(POLLIN | POLLOUT, deadline)
                if readiness & Int16(POLLIN) != 0, PQconsumeInput(try pointer()) != 1 { throw lost() }
            default: throw lost()
            }
        }
    }

    /// The next result of the running command; nil once it is over.
    func nextResult(_ deadline: Deadline) throws(DatabaseError) -> ResultHandle? {
        while PQisBusy(try pointer()) != 0 {
            _ = try ready(POLLIN, deadline)
            guard PQconsumeInput(try pointer()) == 1 else { throw lost() }
        }
        guard let result = PQgetResult(try pointer()) else { return nil }
        return ResultHandle(result)
    }

    /// The refusal in `result`, nil if it is none. What is neither ends the wire.
    func failure(of result: borrowing ResultHandle, statement: String?) throws(DatabaseError) -> Refusal? {
        switch result.status {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
            return nil
        case PGRES_FATAL_ERROR, PGRES_NONFATAL_ERROR:
            // Without an SQLSTATE it is libpq's own message: the connection is gone.
            guard let refusal = result.refusal(statement: statement) else { throw lost() }
            return refusal
        default:
            throw doubt("an answer that this program has no use for: \(String(cString: PQresStatus(result.status)))")
        }
    }

    /// What a refusal means for the connection.
    func judge(_ refusal: Refusal) -> DatabaseError {
        let reason = "\(refusal.sqlState) \(refusal.message)"
        let closed = (try? pointer()).map { PQstatus($0) == CONNECTION_BAD } ?? true
        if closed || ["08", "57"].contains(refusal.sqlState.conditionClass) && refusal.sqlState.isConnectionLevel {
            end(reason)
            return .connectionLost(reason: reason)
        }
        // 26000 and 0A000 ("cached plan must not change result type"): what we prepared is no longer what is there.
        if refusal.sqlState.isConnectionLevel || ["26000", "0A000"].contains(refusal.sqlState.code) { end(reason) }
        return .refused(refusal)
    }

    /// The conversation went another way than libpq's documentation says.
    func doubt(_ what: String) -> DatabaseError {
        end("the server gave \(what)")
        return .protocolViolation(reason: "the server gave \(what); the connection was closed")
    }

    // MARK: Waiting

    /// Waits until the socket is ready for one of `events`; past the deadline the connection is closed.
    func ready(_ events: Int32, _ deadline: Deadline) throws(DatabaseError) -> Int16 {
        var entries = [pollfd(fd: PQsocket(try pointer()), events: Int16(events), revents: 0)]
        guard poll(&entries, until: deadline) else {
            end("no answer within \(deadline.limit)")
            throw .timedOut(after: deadline.limit)
        }
        // An error or a hang-up is read like data: libpq then says what it was.
        let trouble = Int16(POLLERR | POLLHUP | POLLNVAL)
        return entries[0].revents & trouble != 0 ? Int16(POLLIN) : entries[0].revents
    }

    /// Whether the connection still stands between two commands. Costs one poll(2) when nothing has come.
    func standsIdle() -> Bool {
        while let pointer = handle?.pointer {
            var entries = [pollfd(fd: PQsocket(pointer), events: Int16(POLLIN), revents: 0)]
            guard poll(&entries, until: Deadline(.zero)) else { return true }
            // The last words of a server come as a notice, its end as an error of the read after it.
            if PQconsumeInput(pointer) != 1 { _ = lost() } else { _ = PQisBusy(pointer) }
        }
        return false
    }
}

/// When a wait ends, and how long it was meant to be.
struct Deadline {
    let limit: Duration
    let instant: ContinuousClock.Instant

    init(_ limit: Duration) {
        self.limit = limit
        instant = .now + limit
    }

    /// For poll(2): rounded up, so that a wait never ends before its time.
    var remainingMilliseconds: Int32 {
        let left = instant - .now
        guard left > .zero else { return 0 }
        let (seconds, attoseconds) = left.components
        return Int32(clamping: seconds * 1_000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}

/// poll(2) until something is ready or the deadline has passed (false). A signal does not shorten it.
func poll(_ entries: inout [pollfd], until deadline: Deadline) -> Bool {
    while true {
        let ready = Glibc.poll(&entries, nfds_t(entries.count), deadline.remainingMilliseconds)
        if ready > 0 { return true }
        // Anything but a signal is a mistake in the descriptors: reading them will tell.
        if ready < 0, errno != EINTR { return true }
        if ready == 0, deadline.remainingMilliseconds == 0 { return false }
    }
}
