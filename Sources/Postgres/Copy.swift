import CLibpq
import Glibc
import Linux

/// The side of a copy that failed.
package enum CopyFailure: Error {
    case source(DatabaseError)
    case target(DatabaseError)
    /// Stopped by the caller; both connections are closed.
    case givenUp
}

extension Session {
    /// Opens a second connection on this connection's thread while `body` runs, so that reading here and writing there
    /// needs neither a queue nor a second thread.
    package func beside<Value>(
        _ settings: ConnectionSettings, _ body: (borrowing Session) throws(DatabaseError) -> Value
    ) throws(DatabaseError) -> Value {
        let other = Wire(settings: settings, wakeUp: try WakeUp.ofConnection(), monitor: ConnectionMonitor())
        try other.open()
        defer { other.end("it was closed") }
        return try body(Session(wire: other))
    }

    /// Copies the rows of `query` (COPY … TO STDOUT) here into the table of `insert` (COPY … FROM STDIN) in `target`.
    /// Holds at most `Wire.copyBytesQueued` and one row in memory.
    /// - Parameters:
    ///   - stall: how long either side may do nothing; the whole copy has no limit.
    ///   - goesOn: called after every `step` rows with the rows so far; false stops the copy.
    /// - Returns: the number of rows that each side reports.
    package func copy(
        _ query: String, to target: borrowing Session, _ insert: String, stall: Duration, step: Int,
        goesOn: (Int) -> Bool
    ) throws(CopyFailure) -> (read: Int, written: Int) {
        let (out, into) = (wire, target.wire)
        do throws(DatabaseError) { try into.beginCopy(insert, PGRES_COPY_IN, stall) } catch { throw .target(error) }
        var failure: CopyFailure?
        var rows = 0
        let read: Int
        do throws(DatabaseError) {
            read = try out.copyOut(query, stall) { row in
                do throws(DatabaseError) { try into.putCopy(row, stall) } catch { failure = .target(error) }
                rows += 1
                if failure == nil, rows % step == 0, !goesOn(rows) { failure = .givenUp }
                return failure == nil
            }
        } catch {
            // Closing the connection ends a copy in progress; the server rolls it back.
            into.end("the copy was given up")
            throw failure ?? .source(error)
        }
        do throws(DatabaseError) { return (read, try into.endCopy(stall)) } catch { throw .target(error) }
    }

    /// The number returned by a query of one column and one row. For table names that only the catalogue knows; SQL
    /// with values is a `Statement`.
    /// - Parameter stall: how long to wait for it; nil: as for any statement, which may count a whole table.
    package func number(_ query: String, stall: Duration? = nil) throws(DatabaseError) -> Int? {
        var text = ""
        _ = try wire.copyOut("COPY (\(query)) TO STDOUT", stall ?? wire.settings.statementDeadline) { row in
            text += String(decoding: row, as: UTF8.self)
            return true
        }
        return Int(text.prefix { $0 != "\n" })
    }
}

extension Wire {
    /// Bytes of a copy that libpq may hold before a flush to the socket; without a flush it would hold all of it.
    static let copyBytesQueued = 64 << 10

    /// Sends a COPY and waits until the server is ready for its rows.
    func beginCopy(_ sql: String, _ wanted: ExecStatusType, _ stall: Duration) throws(DatabaseError) {
        let deadline = try sendCopy(sql, stall)
        try awaitCopy(wanted, deadline)
    }

    /// Sends one COPY, or several as one command; `awaitCopy` comes next.
    @discardableResult
    func sendCopy(_ sql: String, _ stall: Duration) throws(DatabaseError) -> Deadline {
        try collect()
        // It would find what other clients have set for the session.
        guard settings.pooling == .session || transactionStatus == PQTRANS_INTRANS else {
            throw .protocolViolation(reason: "a COPY outside a transaction")
        }
        let deadline = begin(stall)
        notices.clear()
        copyBytes = 0
        guard PQsendQuery(try pointer(), sql) == 1 else { throw lost() }
        try flush(deadline)
        return deadline
    }

    /// Waits until the server is ready for the rows of a copy.
    func awaitCopy(
        _ wanted: ExecStatusType, _ deadline: Deadline, statement: String? = nil
    ) throws(DatabaseError) {
        guard let result = try nextResult(deadline) else { throw doubt("no answer to a COPY") }
        if result.status == wanted { return }
        guard let refusal = try failure(of: result, statement: statement) else {
            throw doubt("another answer to a COPY")
        }
        while try nextResult(deadline) != nil {}
        throw judge(refusal)
    }

    /// Reads all rows of a COPY … TO STDOUT; ends the wire when `take` returns false.
    /// - Returns: the server's count.
    fileprivate func copyOut(
        _ sql: String, _ stall: Duration, _ take: (UnsafeRawBufferPointer) -> Bool
    ) throws(DatabaseError) -> Int {
        try beginCopy(sql, PGRES_COPY_OUT, stall)
        /// Since the last read from the socket: `takeDecrypted`.
        var hasDrained = false
        while true {
            var row: UnsafeMutablePointer<CChar>?
            let count = PQgetCopyData(try pointer(), &row, 1)
            defer { PQfreemem(row) }
            switch count {
            case 1...:
                guard take(UnsafeRawBufferPointer(start: row, count: Int(count))) else {
                    end("the copy was given up")
                    throw .connectionLost(reason: "the copy was given up")
                }
            case 0:
                if !hasDrained {
                    hasDrained = true
                    if try takeDecrypted() { continue }
                }
                _ = try ready(POLLIN, begin(stall))
                guard PQconsumeInput(try pointer()) == 1 else { throw lost() }
                hasDrained = false
            case -1: return try copyResult(stall)
            default: throw lost()
            }
        }
    }

    func putCopy(_ row: UnsafeRawBufferPointer, _ stall: Duration) throws(DatabaseError) {
        let bytes = row.assumingMemoryBound(to: CChar.self).baseAddress
        // 0: libpq's buffers are full.
        while true {
            let answer = PQputCopyData(try pointer(), bytes, Int32(row.count))
            if answer == 1 { break }
            guard answer == 0 else { throw lost() }
            try flush(begin(stall))
        }
        copyBytes += row.count
        if copyBytes >= Self.copyBytesQueued {
            copyBytes = 0
            try flush(begin(stall))
        }
    }

    func endCopy(_ stall: Duration) throws(DatabaseError) -> Int {
        try sendCopyEnd(stall)
        return try copyResult(stall)
    }

    /// Sends the end of a copy's rows.
    func sendCopyEnd(_ stall: Duration) throws(DatabaseError) {
        while true {
            let answer = PQputCopyEnd(try pointer(), nil)
            if answer == 1 { break }
            guard answer == 0 else { throw lost() }
            try flush(begin(stall))
        }
        try flush(begin(stall))
    }

    /// The number of rows that the server counted for a COPY.
    /// - Parameter isLast: no other COPY was sent behind it.
    func copyResult(_ stall: Duration, statement: String? = nil, isLast: Bool = true) throws(DatabaseError) -> Int {
        let deadline = begin(stall)
        var refusal: Refusal?
        var rows = 0
        while let result = try nextResult(deadline) {
            if let error = try failure(of: result, statement: statement) { refusal = refusal ?? error }
            rows = max(rows, result.affectedRows)
            if !isLast, refusal == nil { return rows }
        }
        if let refusal { throw judge(refusal) }
        return rows
    }
}
