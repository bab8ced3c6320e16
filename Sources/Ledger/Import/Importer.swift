package import Postgres
import Vocabulary

/// Records lines of an import as events, by the rules of recording. Nothing is leased and nothing is sent of them, but
/// of the transfers that they reveal, to one integration, where that is asked for.
///
/// Lines are facts as of their times, like webhooks: the newest one wins, whichever came first. So lines and webhooks
/// give one state in any order, and a file can be imported again where an import was cut short.
package struct Importer: Sendable {
    package enum Outcome: Sendable, Equatable {
        case recorded
        /// It was recorded before.
        case known
        /// The stored state of its purchase cannot be read: the line waits in quarantine (`Repair`).
        case setAside(reason: String)
        /// The database cannot store it.
        case refused(reason: String)
        /// The database did not serve it: somebody holds a lock of its purchase, or what is stored of that is damaged
        /// or takes too long to read. Another run may record it.
        case failed(reason: String)
    }

    private let rules: [String: SourceRules]
    private let routes: RouteTable
    private let isAnnouncing: Bool
    private let pool: Pool
    private let changing = ChangingSources()

    /// - Parameter announced: the only integration that transfers are announced to; nil: none.
    package init(rules: [String: SourceRules], announcingTo announced: RoutedIntegration? = nil, in pool: Pool) {
        self.rules = rules
        routes = RouteTable(announced.map { [$0] } ?? [])
        isAnnouncing = announced != nil
        self.pool = pool
    }

    /// Records the lines, in their order, in one transaction; those that it refuses are found and left out.
    /// - Returns: what became of each line.
    /// - Throws: what concerns all lines: a lost connection, a server without room, a ledger without its tables.
    package func record(_ lines: [ImportLine]) async throws(DatabaseError) -> [Outcome] {
        let events = lines.map(\.event)
        let known = try await known(events)
        let new = zip(events, known).filter { !$0.1 }.map { $0.0 }
        var outcomes = try await record(new)[...]
        return known.map { $0 ? .known : outcomes.removeFirst() }
    }

    /// Which events are stored already: an import that is begun again passes over them without a lock.
    private func known(_ events: [Event]) async throws(DatabaseError) -> [Bool] {
        let arrivals = EventBatch(events, in: .timedKeys).all
        let wanted = (arrivals.map(\.key), arrivals.map(\.otherKey))
        let found = try await pool.withSession { session throws(DatabaseError) in
            Set(try session.run(ImportStatements.known, wanted))
        }
        return arrivals.map { found.contains($0.key) }
    }

    /// - Parameter isApart: a time-out ended the batch of these events, and they are tried apart, with little time.
    private func record(_ events: [Event], isApart: Bool = false) async throws(DatabaseError) -> [Outcome] {
        if events.isEmpty { return [] }
        do throws(DatabaseError) {
            return try await commit(events, isApart: isApart)
        } catch {
            if events.count == 1, error.isCausedByEvent {
                return [.refused(reason: "the database cannot store it: \(error)")]
            }
            let isOfSome = error.mayBeOneEvent || error.isTimeout || error.isServerLimit && events.count > 1
            guard isOfSome, !error.isSchemaOrPrivilege else { throw error }
            if events.count == 1, isApart || !error.isTimeout {
                return [.failed(reason: "the database did not store it, try it again later: \(error)")]
            }
            // One event alone becomes the second half, and is tried apart.
            let middle = events.count / 2
            let areApart = isApart || error.isTimeout
            let first = try await record(Array(events[..<middle]), isApart: areApart)
            let second = try await record(Array(events[middle...]), isApart: areApart)
            return first + second
        }
    }

    private func commit(_ events: [Event], isApart: Bool) async throws(DatabaseError) -> [Outcome] {
        var mode = WriteMode(events: events.count, copiedEventsMin: Limits.recordCopiedEventsMin)
        var isCaughtUp = false
        for attempt in 1... {
            do throws(DatabaseError) {
                let committed = try await transact(events, mode, isApart: isApart)
                // What blocks the deliveries may have been settled meanwhile (`Successors`).
                if isAnnouncing { await Queue.unblock(successorsOf: Set(committed.blocked.map(\.key)), in: pool) }
                return zip(committed.outcomes, events).map { outcome, event in
                    switch outcome {
                    case .recorded: .recorded
                    case .duplicate: .known
                    // An install that is known already is not registered again.
                    case .conditionFailed where event.purchase == nil: .known
                    case .setAside(_, _, let reason), .unavailable(let reason): .setAside(reason: reason)
                    case .conditionFailed: .refused(reason: "it contradicts what is stored about its token")
                    }
                }
            } catch  where error.isSequenceBehind && !isCaughtUp {
                isCaughtUp = true
                await pool.catchUpSequences()
            } catch  where mode != .insertIfAbsent && error.isThereAlready {
                mode = .insertIfAbsent
            } catch
                where error.isLockTimeout && (events.count > 1 || !isApart) || error.isServerLimit && events.count > 1
            {
                // In halves: the other lines do not wait, nor do webhooks for what a larger part has locked.
                throw error
            } catch  where error.isCollision || error.isLockTimeout || error.isOutdatedFormat {
                if attempt >= Recorder.collisionsMax { throw error }
            }
        }
        preconditionFailure("the loop ends by returning or throwing")
    }

    private func transact(
        _ events: [Event], _ mode: WriteMode, isApart: Bool
    ) async throws(DatabaseError) -> BatchRecording.Committed {
        try await pool.withSession { [rules, routes, changing, isAnnouncing] session throws(DatabaseError) in
            try session.transaction(planning: .onceByIndex) { session throws(DatabaseError) in
                if isApart { try session.script(Recorder.apartTimeout) }
                let recording = BatchRecording(
                    routes: routes, rules: rules, changing: changing, dispatchBuffer: DispatchBuffer(), daemon: nil,
                    ledgerForm: try LedgerForm.readByAll(on: session), mode: mode, announcesImports: isAnnouncing)
                var reserved = Reservations()
                return try recording.run(events, on: session, reserved: &reserved)
            }
        }
    }
}

extension DatabaseError {
    /// Whether every line would fail: a table or a right is missing (class 42).
    fileprivate var isSchemaOrPrivilege: Bool { sqlState?.conditionClass == "42" }
}

enum ImportStatements {
    /// Those of the event keys that are stored, in either form.
    static let known = Statement<([Identifier], [Identifier]), Identifier>(
        "import_known",
        """
        SELECT w.key FROM unnest($1, $2) AS w (key, other_key)
        WHERE (SELECT true FROM identities i WHERE i.key = w.key LIMIT 1)
            OR (SELECT true FROM identities i WHERE i.key = w.other_key LIMIT 1)
        """)
}
