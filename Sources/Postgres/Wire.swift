import CLibpq
import Glibc
import Linux

/// One libpq connection in non-blocking mode: send, flush, poll(2) on the socket up to a deadline, read. Used only on
/// its connection's thread.
///
/// A doubtful connection is closed: any failure below the level of an SQL error ends the wire, and an ended wire
/// answers every call with `.connectionLost`. It is never repaired.
final class Wire {
    let settings: ConnectionSettings
    let wakeUp: WakeUp
    let monitor: ConnectionMonitor
    let notices = Notices()
    var parameters = ParameterBuffer()
    /// The rows of a copy, kept to reuse the memory.
    var copyRows = ValueWriter()
    /// The SQL of the statements that the server has prepared, by name.
    var prepared: [String: String] = [:]
    /// Enqueued and not answered yet; libpq is in pipeline mode while there are any.
    var pipelined: [PipelinedStatement] = []
    /// Bytes of the parameters of `pipelined`.
    var pipelinedBytes = 0
    var planning = SessionPlanning()
    /// The server that was found first; nil: none yet, or the session is the connection's own.
    var server: SharedServer?
    /// Bytes of the running copy since the last flush.
    var copyBytes = 0
    private var handle: ConnectionHandle?

    init(settings: ConnectionSettings, wakeUp: WakeUp, monitor: ConnectionMonitor) {
        self.settings = settings
        self.wakeUp = wakeUp
        self.monitor = monitor
    }

    func adopt(_ handle: consuming ConnectionHandle) { self.handle = consume handle }

    /// libpq's connection; throws the reason why there is none.
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

    /// Closes the connection at once. The first reason is kept.
    func end(_ reason: String) {
        handle = nil
        pipelined = []
        pipelinedBytes = 0
        monitor.end(reason)
    }

    /// Ends the wire with libpq's error message.
    func lost() -> DatabaseError {
        var reason = monitor.endReason ?? "it was closed"
        if let pointer = handle?.pointer { reason = oneLine(String(cString: PQerrorMessage(pointer))) }
        if let fatal = notices.fatal { reason = "\(fatal); \(reason)" }
        end(reason)
        return .connectionLost(reason: reason)
    }

    // MARK: One command

    /// Sends a command and reads all of its results; returns the last one. Enqueued statements are answered before.
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
            // A FATAL received before the connection ended is the better reason.
            guard let refusal, case .connectionLost = error else { throw error }
            throw .connectionLost(reason: "\(refusal.sqlState) \(refusal.message)")
        }
        if let refusal { throw judge(refusal) }
        guard let result = consume last else { throw doubt("a command without a result") }
        return result
    }

    /// Starts the deadline of one answer.
    func begin(_ limit: Duration) -> Deadline {
        let deadline = Deadline(limit)
        monitor.waits(until: deadline.instant)
        return deadline
    }

    /// Flushes libpq's buffer to the socket. Reads meanwhile, because a server that cannot send its answer stops
    /// reading.
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
            if try takeDecrypted(), PQisBusy(try pointer()) == 0 { break }
            _ = try ready(POLLIN, deadline)
            guard PQconsumeInput(try pointer()) == 1 else { throw lost() }
        }
        guard let result = PQgetResult(try pointer()) else { return nil }
        return ResultHandle(result)
    }

    /// The refusal in `result`, nil if it is none. Any other status ends the wire.
    func failure(of result: borrowing ResultHandle, statement: String?) throws(DatabaseError) -> Refusal? {
        switch result.status {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
            return nil
        case PGRES_FATAL_ERROR, PGRES_NONFATAL_ERROR:
            // An error without SQLSTATE is libpq's own message: the connection is gone.
            guard let refusal = result.refusal(statement: statement) else { throw lost() }
            return refusal
        default:
            throw doubt("an answer that this program has no use for: \(String(cString: PQresStatus(result.status)))")
        }
    }

    /// Turns a refusal into an error; ends the wire if the connection is unusable.
    func judge(_ refusal: Refusal) -> DatabaseError {
        let reason = "\(refusal.sqlState) \(refusal.message)"
        let closed = (try? pointer()).map { PQstatus($0) == CONNECTION_BAD } ?? true
        if closed || ["08", "57"].contains(refusal.sqlState.conditionClass) && refusal.sqlState.isConnectionLevel {
            end(reason)
            return .connectionLost(reason: reason)
        }
        if isOfStandby(refusal) {
            end(reason)
            return .connectionLost(reason: reason)
        }
        // 26000 and 0A000 ("cached plan must not change result type"): our prepared statements no longer match the
        // database.
        if refusal.sqlState.isConnectionLevel || ["26000", "0A000"].contains(refusal.sqlState.code) { end(reason) }
        return .refused(refusal)
    }

    /// Ends the wire because the server's answers do not follow libpq's documentation.
    func doubt(_ what: String) -> DatabaseError {
        end("the server gave \(what)")
        return .protocolViolation(reason: "the server gave \(what); the connection was closed")
    }

    // MARK: Waiting

    /// Takes over what OpenSSL has read from the socket already. libpq reads as much of a TLS record as its buffer has
    /// room for, and poll(2) does not see the rest: to be called before each wait for input.
    /// - Returns: false: the connection is not encrypted.
    func takeDecrypted() throws(DatabaseError) -> Bool {
        guard PQsslInUse(try pointer()) != 0 else { return false }
        guard PQconsumeInput(try pointer()) == 1 else { throw lost() }
        return true
    }

    /// Waits until the socket is ready for one of `events`; past the deadline the connection is closed.
    func ready(_ events: Int32, _ deadline: Deadline) throws(DatabaseError) -> Int16 {
        var entries = [pollfd(fd: PQsocket(try pointer()), events: Int16(events), revents: 0)]
        guard poll(&entries, until: deadline) else {
            end("no answer within \(deadline.limit)")
            throw .timedOut(after: deadline.limit)
        }
        // An error or a hang-up is read like data; libpq then reports it.
        let trouble = Int16(POLLERR | POLLHUP | POLLNVAL)
        return entries[0].revents & trouble != 0 ? Int16(POLLIN) : entries[0].revents
    }

    /// Whether the connection is still open between two commands. Costs one poll(2) when nothing has arrived.
    func standsIdle() -> Bool {
        while let pointer = handle?.pointer {
            var entries = [pollfd(fd: PQsocket(pointer), events: Int16(POLLIN), revents: 0)]
            guard poll(&entries, until: Deadline(.zero)) else { return true }
            // A closing server's last message arrives as a notice, its end as an error of the following read.
            if PQconsumeInput(pointer) != 1 { _ = lost() } else { _ = PQisBusy(pointer) }
        }
        return false
    }
}

/// The end of a wait and its intended length.
struct Deadline {
    let limit: Duration
    let instant: ContinuousClock.Instant

    init(_ limit: Duration) {
        self.limit = limit
        instant = .now + limit
    }

    /// For poll(2): rounded up, so that a wait never ends early.
    var remainingMilliseconds: Int32 {
        let left = instant - .now
        guard left > .zero else { return 0 }
        let (seconds, attoseconds) = left.components
        return Int32(clamping: seconds * 1_000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}

/// Polls until something is ready or the deadline has passed (false). A signal does not shorten it.
func poll(_ entries: inout [pollfd], until deadline: Deadline) -> Bool {
    while true {
        let ready = Glibc.poll(&entries, nfds_t(entries.count), deadline.remainingMilliseconds)
        if ready > 0 { return true }
        // Any error other than a signal is a wrong descriptor; the following read reports it.
        if ready < 0, errno != EINTR { return true }
        if ready == 0, deadline.remainingMilliseconds == 0 { return false }
    }
}
