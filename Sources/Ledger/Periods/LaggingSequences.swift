import Postgres

extension Pool {
    /// Moves on sequences that are behind their tables, before what failed by that
    /// (`DatabaseError.isSequenceBehind`) is tried once more. What records meets them where it is led to a logical
    /// subscriber. Where this fails, that fails again, and upkeep says why.
    func catchUpSequences() async {
        try? await withSession { session throws(DatabaseError) in
            try session.transaction { session throws(DatabaseError) in
                try PeriodTables.lock(on: session)
                try PeriodTables.catchUp(on: session)
            }
        }
    }
}
