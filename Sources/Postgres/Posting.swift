import CLibpq

/// A statement that was sent ahead, in libpq's pipeline mode: its answer is read with that of the next one that waits.
struct PostedStatement {
    let name: String
    /// Takes its answer; what speaks against it. Where there is one, the transaction's COMMIT waits for it.
    let read: ((borrowing ResultHandle) -> DatabaseError?)?
}

/// The rows of a statement that was sent ahead (`Session.ask`).
package final class Asked<Row> {
    fileprivate(set) var rows: [Row]?
}

extension Session {
    /// Sends a statement of a transaction without waiting for its answer: it is read with that of the next statement
    /// that waits, at the latest that of COMMIT, and what it refuses is thrown there. So a transaction of several
    /// writes waits once for all of them. The server runs them in their order, and none after one that it refuses
    /// (PostgreSQL manual, "Pipeline Mode"): what is posted last travels with COMMIT. Each has the server's time for a
    /// statement, but the wait for all of them together is no longer than for one: the server holds its answers back
    /// until it has them all, and a server that is gone is to be noticed as soon.
    /// - Parameter check: says of the number of rows that it touched whether that is an error; asked before COMMIT is
    ///   sent.
    package func post<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters, check: ((Int) -> DatabaseError?)? = nil
    ) throws(DatabaseError) {
        guard wire.transactionStatus == PQTRANS_INTRANS || !wire.posted.isEmpty else {
            throw .protocolViolation(reason: "\(statement.name) was posted outside a transaction")
        }
        try postAnywhere(statement, parameters, read: check.map { check in { check($0.affectedRows) } })
    }

    /// Posts a statement whose rows are wanted later: so several questions wait once. `answer(to:)` has them.
    package func ask<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters
    ) throws(DatabaseError) -> Asked<Row> {
        guard wire.transactionStatus == PQTRANS_INTRANS || !wire.posted.isEmpty else {
            throw .protocolViolation(reason: "\(statement.name) was asked outside a transaction")
        }
        let asked = Asked<Row>()
        try postAnywhere(statement, parameters) { result in
            do throws(DatabaseError) {
                asked.rows = try statement.rows(of: result)
                return nil
            } catch {
                return error
            }
        }
        return asked
    }

    /// The rows of a statement that was asked; waits for them, and for all that was posted, unless they are there.
    package func answer<Row>(to asked: Asked<Row>) throws(DatabaseError) -> [Row] {
        if asked.rows == nil { try wire.collect() }
        guard let rows = asked.rows else { throw .protocolViolation(reason: "a statement was asked elsewhere") }
        return rows
    }

    /// The same for what begins a transaction.
    func postAnywhere<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters,
        read: ((borrowing ResultHandle) -> DatabaseError?)? = nil
    ) throws(DatabaseError) {
        try prepare(statement)
        if wire.holdsEnough { try wire.collect() }
        try encode(statement, parameters)
        try wire.post(PostedStatement(name: statement.name, read: read))
    }
}

extension Wire {
    /// Statements that are sent ahead before their answers are read: nobody reads meanwhile.
    static let postedMax = 64

    /// What comes next is sent when these are answered.
    var holdsEnough: Bool { posted.count >= Self.postedMax || postedBytes >= Self.parameterBytesKept }

    /// Queues the execution of a prepared statement with the parameters in the buffer.
    func post(_ statement: PostedStatement) throws(DatabaseError) {
        if posted.isEmpty, PQenterPipelineMode(try pointer()) != 1 { throw lost() }
        postedBytes += parameters.byteCount
        posted.append(statement)
        guard queueExecution(of: statement.name, on: try pointer()) == 1 else { throw lost() }
    }

    /// Reads the answers to all that was posted; nothing to do where nothing was.
    func collect() throws(DatabaseError) {
        if !posted.isEmpty { _ = try collectResults(within: settings.statementDeadline) }
    }

    /// The same; returns the answer to the last one.
    func collectResults(within limit: Duration) throws(DatabaseError) -> ResultHandle {
        let statements = posted
        posted = []
        postedBytes = 0
        let deadline = begin(limit)
        notices.clear()
        guard PQpipelineSync(try pointer()) == 1 else { throw lost() }
        try flush(deadline)
        let answers = try readAnswers(to: statements, deadline)
        guard PQexitPipelineMode(try pointer()) == 1 else { throw doubt("answers beyond the last one") }
        if let refusal = answers.refusal { throw judge(refusal) }
        if let error = answers.error { throw error }
        guard let last = answers.takeLast() else { throw doubt("no answer to a posted statement") }
        return last
    }

    private func readAnswers(
        to statements: [PostedStatement], _ deadline: Deadline
    ) throws(DatabaseError) -> PostedAnswers {
        var answers = PostedAnswers()
        var answered = 0
        var isBetween = true
        while true {
            // Each statement's answer ends in a nil; so there are never two of them in turn.
            guard let result = try nextResult(deadline) else {
                if isBetween { throw doubt("no answer in a pipeline") }
                isBetween = true
                continue
            }
            isBetween = false
            if result.status == PGRES_PIPELINE_SYNC { return answers }
            guard answered < statements.count else { throw doubt("more answers than statements") }
            let statement = statements[answered]
            answered += 1
            // What it warns of is told before its answer, and libpq reads on only when asked: so what is left at the
            // end is of the last one.
            if answered < statements.count { notices.clear() }
            // Not run, because one before it was refused.
            if result.status == PGRES_PIPELINE_ABORTED { continue }
            if let refusal = try failure(of: result, statement: statement.name) {
                answers.refusal = answers.refusal ?? refusal
                continue
            }
            let error = statement.read?(result)
            answers.error = answers.error ?? error
            answers.last = answered == statements.count ? consume result : nil
        }
    }
}

/// What came back of a pipeline.
private struct PostedAnswers: ~Copyable {
    var refusal: Refusal?
    var error: DatabaseError?
    var last: ResultHandle?

    consuming func takeLast() -> ResultHandle? { last }
}
