import CLibpq

/// An enqueued statement in libpq's pipeline mode: its answer is read with that of the next statement that waits.
struct PipelinedStatement {
    let name: String
    /// Reads the answer; returns an error if the answer is not acceptable. A transaction with such a check waits for it
    /// before COMMIT.
    let read: ((borrowing ResultHandle) -> DatabaseError?)?
    /// `read` decides nothing that COMMIT has to wait for.
    let mayFollowCommit: Bool

    var mayTravelWithCommit: Bool { read == nil || mayFollowCommit }
}

/// The pending rows of an enqueued query (`Session.enqueueQuery`).
package final class PendingRows<Row> {
    fileprivate(set) var rows: [Row]?
    /// The rows that it touched or returned.
    fileprivate(set) var affectedRows = 0
}

extension Session {
    /// Enqueues a statement of a transaction without waiting for its answer. The answer is read with that of the next
    /// statement that waits, at the latest that of COMMIT, and a refusal is thrown there, so a transaction of several
    /// writes waits once for all of them. The server runs them in order, and none after one that it refuses (PostgreSQL
    /// manual, "Pipeline Mode"); the last ones are sent with COMMIT. Each statement has the server's statement
    /// time-out, but the wait for all of them together is no longer than for one: the server holds its answers back
    /// until it has them all, and a lost server must be detected as soon.
    /// - Parameter check: returns an error if the number of touched rows is wrong; called before COMMIT is sent.
    package func enqueue<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters, check: ((Int) -> DatabaseError?)? = nil
    ) throws(DatabaseError) {
        guard wire.transactionStatus == PQTRANS_INTRANS || !wire.pipelined.isEmpty else {
            throw .protocolViolation(reason: "\(statement.name) was enqueued outside a transaction")
        }
        try enqueueAnywhere(statement, parameters, read: check.map { check in { check($0.affectedRows) } })
    }

    /// Enqueues a query whose rows are read later with `answer(to:)`, so that several queries wait once.
    package func enqueueQuery<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters
    ) throws(DatabaseError) -> PendingRows<Row> {
        try enqueueQuery(statement, parameters, mayFollowCommit: false)
    }

    /// - Parameter mayFollowCommit: whether COMMIT may be sent before the rows are read.
    func enqueueQuery<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters, mayFollowCommit: Bool
    ) throws(DatabaseError) -> PendingRows<Row> {
        guard wire.transactionStatus == PQTRANS_INTRANS || !wire.pipelined.isEmpty else {
            throw .protocolViolation(reason: "\(statement.name) was enqueued outside a transaction")
        }
        let pending = PendingRows<Row>()
        try enqueueAnywhere(statement, parameters, mayFollowCommit: mayFollowCommit) { result in
            do throws(DatabaseError) {
                pending.affectedRows = result.affectedRows
                pending.rows = try statement.rows(of: result)
                return nil
            } catch {
                return error
            }
        }
        return pending
    }

    /// The rows of an enqueued query; waits for them and for everything enqueued unless they are already there.
    package func answer<Row>(to pending: PendingRows<Row>) throws(DatabaseError) -> [Row] {
        if pending.rows == nil { try wire.collect() }
        guard let rows = pending.rows else { throw .protocolViolation(reason: "a statement was enqueued elsewhere") }
        return rows
    }

    /// Like `enqueue`, also for the statement that begins a transaction.
    func enqueueAnywhere<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, _ parameters: Parameters, mayFollowCommit: Bool = false,
        read: ((borrowing ResultHandle) -> DatabaseError?)? = nil
    ) throws(DatabaseError) {
        try prepare(statement)
        if wire.holdsEnough { try wire.collect() }
        try encode(statement, parameters)
        try wire.enqueue(statement, read: read, mayFollowCommit: mayFollowCommit)
    }
}

extension Wire {
    /// Statements sent before their answers are read, because nothing is read meanwhile.
    static let pipelinedMax = 64

    /// Whether the enqueued statements must be answered before more are sent.
    var holdsEnough: Bool { pipelined.count >= Self.pipelinedMax || pipelinedBytes >= Self.parameterBytesKept }

    /// Queues the execution of a statement with the parameters in the buffer.
    func enqueue<Parameters, Row>(
        _ statement: Statement<Parameters, Row>, read: ((borrowing ResultHandle) -> DatabaseError?)? = nil,
        mayFollowCommit: Bool = false
    ) throws(DatabaseError) {
        if pipelined.isEmpty, PQenterPipelineMode(try pointer()) != 1 { throw lost() }
        pipelinedBytes += parameters.byteCount
        pipelined.append(PipelinedStatement(name: statement.name, read: read, mayFollowCommit: mayFollowCommit))
        guard queueExecution(of: statement, on: try pointer()) == 1 else { throw lost() }
    }

    /// Reads the answers to everything enqueued; does nothing if nothing is.
    func collect() throws(DatabaseError) {
        if !pipelined.isEmpty { _ = try collectResults(within: settings.statementDeadline) }
    }

    /// Reads the answers to everything enqueued; returns the last one.
    func collectResults(within limit: Duration) throws(DatabaseError) -> ResultHandle {
        let statements = pipelined
        pipelined = []
        pipelinedBytes = 0
        let deadline = begin(limit)
        notices.clear()
        guard PQpipelineSync(try pointer()) == 1 else { throw lost() }
        try flush(deadline)
        let answers = try readAnswers(to: statements, deadline)
        guard PQexitPipelineMode(try pointer()) == 1 else { throw doubt("answers beyond the last one") }
        if let refusal = answers.refusal { throw judge(refusal) }
        if let error = answers.error { throw error }
        guard let last = answers.takeLast() else { throw doubt("no answer to an enqueued statement") }
        return last
    }

    private func readAnswers(
        to statements: [PipelinedStatement], _ deadline: Deadline
    ) throws(DatabaseError) -> PipelineAnswers {
        var answers = PipelineAnswers()
        var answered = 0
        var isBetween = true
        while true {
            // Each statement's answer ends in a nil, so two nils in a row are an error.
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
            // The server sends a statement's warnings before its answer, and libpq reads on only when called: the
            // notices left at the end belong to the last statement.
            if answered < statements.count { notices.clear() }
            // Not run, because an earlier statement was refused.
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

/// The answers of a pipeline.
private struct PipelineAnswers: ~Copyable {
    var refusal: Refusal?
    var error: DatabaseError?
    var last: ResultHandle?

    consuming func takeLast() -> ResultHandle? { last }
}
