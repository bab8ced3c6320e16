import Postgres
import Vocabulary

/// The rows about holders that a batch writes: transfers, links, changes and identities.
extension BatchWrite {
    func writeTransfers(on session: borrowing Session) throws(DatabaseError) {
        if !plan.transfers.isEmpty {
            let transfers = plan.transfers
            try session.enqueue(
                RecordStatements.transfers,
                (
                    transfers.map(\.id), transfers.map(\.purchase), transfers.map(\.from.storageKey),
                    transfers.map(\.to.storageKey), transfers.map { Int32($0.ordinal) }, transfers.map(\.event),
                    transfers.map(\.storeTransactionID)
                ))
        }
        try writeLinks(on: session)
        try writeChanges(on: session)
    }

    private func writeLinks(on session: borrowing Session) throws(DatabaseError) {
        let learned = plan.holders.learnedLinks.compactMap { key in plan.holders.links[key].map { (key, $0) } }
            .sorted { $0.0.holder < $1.0.holder }
        guard !learned.isEmpty else { return }
        try session.enqueue(
            HolderStatements.learnLinks,
            (
                learned.map(\.0.holder.id), learned.map(\.0.scope.source), learned.map(\.0.scope.app),
                learned.map(\.0.scope.environment), learned.map(\.1.userID), learned.map { $0.1.until?.milliseconds },
                learned.map(\.1.asOf.milliseconds)
            ))
    }

    private func writeChanges(on session: borrowing Session) throws(DatabaseError) {
        let changes = plan.holders.newChanges
        if !changes.isEmpty {
            try session.enqueue(
                HolderStatements.addChanges,
                (
                    changes.map(\.row.scope.source), changes.map(\.row.scope.app), changes.map(\.row.scope.environment),
                    changes.map(\.row.subject), changes.map(\.row.kind.rawValue), changes.map(\.row.target.storageKey),
                    changes.map { $0.row.secondTarget?.storageKey }, changes.map(\.row.at.milliseconds),
                    changes.map(\.event), changes.map(\.appliedThrough)
                ))
        }
        let identities = plan.holders.newIdentities
        if !identities.isEmpty {
            try session.enqueue(
                HolderStatements.addIdentities,
                (
                    identities.map(\.key.identity.id), identities.map(\.key.scope.source),
                    identities.map(\.key.scope.app), identities.map(\.key.scope.environment),
                    identities.map(\.install), identities.map(\.event)
                ))
        }
    }
}
