import Foundation
import Postgres
import TestSupport
import Testing

@testable import Ledger

/// Oracle: the server itself, which says what types it makes of each statement on the migrated database.
@Suite("Every statement against the migrated schema")
struct StatementCatalogueTests {
    private struct Entry: Sendable {
        let name: String
        let parameterOIDs: [UInt32]
        let resultOIDs: [UInt32]
        let describe: @Sendable (borrowing Session) throws(DatabaseError) -> StatementDescription

        init<Parameters, Row>(_ statement: Statement<Parameters, Row>) {
            name = statement.name
            parameterOIDs = statement.parameterOIDs
            resultOIDs = statement.resultOIDs
            describe = { session throws(DatabaseError) in try session.describe(statement) }
        }
    }

    private struct TableEntry: Sendable {
        let name: String
        /// The declared type of each column.
        let columns: [String: UInt32]
        let inserts: [Entry]

        init<Row>(_ table: Table<Row>) {
            name = table.name
            columns = Dictionary(uniqueKeysWithValues: table.columns.map { ($0.name, $0.oid) })
            inserts = [Entry(table.insert), Entry(table.insertOne)]
        }
    }

    private static let tables: [TableEntry] = [
        TableEntry(RecordTables.events), TableEntry(RecordTables.purchases), TableEntry(RecordTables.transactions),
        TableEntry(RecordTables.entitlements), TableEntry(RecordTables.transfers), TableEntry(RecordTables.messages),
        TableEntry(RecordTables.deliveries), TableEntry(RecordTables.tokens), TableEntry(QueueStatements.attempts),
        TableEntry(HolderTables.changes), TableEntry(HolderTables.identities), TableEntry(HolderTables.links),
        TableEntry(PurchaseEnds.table),
    ]

    private static let catalogue: [Entry] =
        [
            Entry(Durability.settings), Entry(ServerAdvice.settings),
            Entry(ServerFacts.statement), Entry(ClockReading.statement), Entry(MissingPrivilege.statement),
            Entry(TableSize.largest),
            Entry(Migrator.exists), Entry(Migrator.applied), Entry(Migrator.record), Entry(Migrator.schema),
            Entry(SharedLocks.others), Entry(SharedLocks.othersOfAny),
            Entry(LedgerMark.statement), Entry(LedgerMark.lock),
            Entry(IndexMigration.lock), Entry(IndexMigration.unlock), Entry(IndexMigration.existing),
            Entry(IndexMigration.withoutPart),
            Entry(LedgerForm.switched), Entry(LedgerForm.isMigrated),
            Entry(SwitchGate.isSettled), Entry(SwitchGate.isFree),
            Entry(SwitchGate.limitWaits), Entry(SwitchGate.transactions), Entry(SwitchGate.users),
            Entry(QueueFigures.statement), Entry(LedgerContents.hasSchema), Entry(LedgerContents.contents),
            Entry(LedgerContents.isBegun), Entry(LedgerContents.hasMoves), Entry(LedgerContents.isMoved),
            Entry(Pauses.names), Entry(SourceNames.remember), Entry(SourceNames.exists), Entry(SourceNames.heard),
            Entry(SourceNames.unheard), Entry(SourceNames.all), Entry(SourceNames.isKnown),
            Entry(RecordedHolders.newest),
            Entry(TraceStatements.body),
            Entry(TraceStatements.events), Entry(TraceStatements.messages), Entry(TraceStatements.waiting),
            Entry(TraceStatements.dead), Entry(TraceStatements.attempts), Entry(TraceStatements.holdings),
            Entry(Upkeep.today), Entry(Upkeep.partitions), Entry(Upkeep.lockStatement), Entry(Upkeep.unidentified),
            Entry(PruneStatements.now), Entry(PruneStatements.strays), Entry(PruneStatements.events),
            Entry(PruneStatements.eventKeyPages), Entry(PruneStatements.eventKeys), Entry(PruneStatements.erased),
            Entry(PruneStatements.breakers), Entry(ChangePruneStatements.sources),
            Entry(ChangePruneStatements.old), Entry(ChangePruneStatements.kept),
            Entry(PurchaseEnds.addStored), Entry(EndStatements.due), Entry(EndStatements.stale),
            Entry(EndStatements.prune), Entry(OverdueStatements.isIncomplete),
            Entry(EndStatements.isOfOneVersion), Entry(EndStatements.missing),
            Entry(EndStatements.purchases), Entry(EndStatements.advance), Entry(EndStatements.complete),
            Entry(OverdueStatements.page), Entry(OverdueStatements.figures), Entry(OverdueStatements.passed),
            Entry(TimedAccessUpgrade.statement),
            Entry(MessageAccessStatements.lockNotAll), Entry(MessageAccessStatements.lock),
            Entry(MessageAccessStatements.version), Entry(MessageAccessStatements.held),
            Entry(LapseStatements.correct), Entry(LapseStatements.created), Entry(LapseStatements.current),
            Entry(LapseStatements.markAnnounced),
            Entry(PeriodTables.misownedPartitions),
            Entry(PeriodTables.isPartitioned), Entry(PeriodTables.existing), Entry(PeriodTables.positions),
            Entry(PeriodTables.begin), Entry(PeriodTables.end), Entry(PeriodTables.moveSequences),
            Entry(PeriodTables.partitions), Entry(PeriodTables.needed), Entry(PeriodTables.isUnfinished),
            Entry(PeriodTables.hasYoung), Entry(PruneStatements.isBehind), Entry(PeriodTables.bounds),
            Entry(PeriodTables.mayMove), Entry(PeriodTables.isWhole),
            Entry(PeriodTables.correct),
            Entry(PeriodTables.catchUp), Entry(PeriodTables.catchUpColumns), Entry(PeriodTables.bytes),
            Entry(PeriodSwitch.firstFreeID), Entry(PeriodSwitch.bound), Entry(PeriodSwitch.owner),
            Entry(PeriodSwitch.grants),
            Entry(MoveStatements.tables), Entry(MoveStatements.sequences), Entry(MoveStatements.setSequence),
            Entry(MoveStatements.cluster), Entry(MoveStatements.movedAt), Entry(MoveStatements.record),
            Entry(MoveStatements.livingDaemons),
        ] + recording + holders + lookups + queueing + operating + erasing + repairing + auditing + importing
        + tables.flatMap(\.inserts)

    private static let importing: [Entry] = [
        Entry(ImportStatements.known), Entry(ImportComparisonStatements.purchases),
        Entry(ImportComparisonStatements.links), Entry(ImportComparisonStatements.kept),
        Entry(ExportStatements.seen),
        Entry(ExportStatements.purchases), Entry(ExportStatements.holders), Entry(ExportStatements.transactions),
        Entry(ExportStatements.said), Entry(ExportStatements.tokens), Entry(ExportStatements.transfers),
        Entry(ExportStatements.links), Entry(ExportStatements.firsts), Entry(ExportStatements.installs),
        Entry(ExportStatements.changes),
    ]

    private static let recording: [Entry] = [
        Entry(RecordStatements.eventIDs), Entry(RecordStatements.admit), Entry(RecordStatements.admitBeforeTimedKeys),
        Entry(RecordStatements.differing),
        Entry(RecordStatements.lockPurchases), Entry(RecordStatements.lockNamedPurchases),
        Entry(PurchasePeriodStatements.ofNamed), Entry(PurchasePeriodStatements.ofIDs),
        Entry(KnownStatusStatements.ofNamed), Entry(KnownStatusStatements.ofIDs),
        Entry(RecordStatements.rowIDs), Entry(RecordStatements.occupied), Entry(RecordStatements.occupiedByNamed),
        Entry(RequeueStatements.occupied),
        Entry(RecordTables.purchasesIfAbsent), Entry(RecordTables.updatePurchases),
        Entry(RecordTables.messagesIfAbsent), Entry(RecordStatements.quarantine), Entry(RecordStatements.forget),
        Entry(KnownAccessStatements.write),
        Entry(RecordStatements.messagesKept), Entry(TokenLookup.subject), Entry(TokenLookup.token),
        Entry(KnownTokens.statement),
        Entry(RecordStatements.notify), Entry(RecordStatements.wait), Entry(RelayMessage.keys),
    ]

    private static let repairing: [Entry] = [
        Entry(RepairStatements.named), Entry(RepairStatements.page), Entry(RepairStatements.source),
        Entry(RepairStatements.horizon), Entry(RepairStatements.webhooks), Entry(RepairStatements.statements),
        Entry(RepairStatements.byRow), Entry(RepairStatements.changes), Entry(RepairStatements.firstIdentifies),
        Entry(RepairStatements.others),
        Entry(RepairStatements.links), Entry(RepairStatements.entitlements), Entry(RepairStatements.transfers),
        Entry(RepairStatements.transactions), Entry(RepairStatements.write), Entry(RepairStatements.waiting),
    ]

    private static let auditing: [Entry] = [
        Entry(AuditStatements.knownFrom), Entry(AuditStatements.ends), Entry(AuditStatements.countAlone),
        Entry(AuditStatements.missingTables),
        Entry(AuditStatements.older), Entry(AuditStatements.messages), Entry(AuditStatements.tried),
        Entry(AuditStatements.dead), Entry(AuditStatements.discarded), Entry(AuditStatements.waitingOf),
        Entry(AuditStatements.waitingAlone), Entry(AuditStatements.waitingAnywhere),
        Entry(AuditStatements.deliveries), Entry(AuditStatements.deadLetters),
        Entry(BackfillStatements.addReceiver), Entry(EraseStatements.recordDiscards), Entry(PruneStatements.discards),
        Entry(PruneStatements.discardPages), Entry(PruneStatements.strayPages),
    ]

    private static let holders: [Entry] = [
        Entry(HolderStatements.lock), Entry(HolderStatements.lockShared), Entry(HolderStatements.links),
        Entry(HolderStatements.linksOfUsers),
        Entry(HolderStatements.identities), Entry(HolderStatements.register), Entry(HolderStatements.purchases),
        Entry(HolderStatements.restored),
        Entry(HolderStatements.newestTransactions), Entry(HolderStatements.changes),
        Entry(HolderStatements.changesBeforeTimedKeys),
        Entry(HolderStatements.unfinishedAmong), Entry(HolderStatements.unfinished),
        Entry(HolderStatements.unfinishedOf),
        Entry(HolderStatements.unfinishedSources),
        Entry(HolderStatements.cause), Entry(HolderStatements.advance),
    ]

    private static let lookups: [Entry] = [
        Entry(HolderEntitlementStatements.page), Entry(HolderEntitlementStatements.products),
        Entry(HolderEntitlementStatements.causes),
        Entry(HolderHistoryStatements.events),
        Entry(HolderHistoryStatements.transfersOf), Entry(HolderHistoryStatements.transfers),
        Entry(HolderIdentityStatements.links), Entry(HolderInstallStatements.known),
        Entry(HolderInstallStatements.identity), Entry(HolderInstallStatements.newestTime),
        Entry(HolderInstallStatements.newestTimeOfNamed),
        Entry(HolderInstallStatements.identified), Entry(HolderInstallStatements.grant),
        Entry(HolderInstallStatements.grantBeforeTimedKeys),
        Entry(HolderLookupStatements.currentIdentities), Entry(HolderTransactionStatements.transactions),
    ]

    private static let queueing: [Entry] = [
        Entry(QueueStatements.register), Entry(QueueStatements.renew), Entry(QueueStatements.ledgerForm),
        Entry(HolderStatements.changing),
        Entry(QueueStatements.otherLeases), Entry(QueueStatements.expire),
        Entry(QueueStatements.expirePredecessor), Entry(QueueStatements.leave), Entry(QueueStatements.reclaim),
        Entry(QueueStatements.blocks), Entry(QueueStatements.putOff),
        Entry(QueueStatements.leased), Entry(QueueStatements.giveBack), Entry(QueueStatements.giveBackUnknown),
        Entry(QueueStatements.giveBackAll),
        Entry(QueueStatements.unblock), Entry(QueueStatements.due), Entry(QueueStatements.claim),
        Entry(MessageReading.messageBytes), Entry(MessageReading.eventBytes), Entry(QueueStatements.unclaim),
        Entry(MessageReading.messages), Entry(MessageReading.events),
        Entry(QueueStatements.settled), Entry(QueueStatements.retry),
        Entry(QueueStatements.attemptsThere), Entry(QueueStatements.deadLetters), Entry(QueueStatements.blockedNext),
        Entry(QueueStatements.unblockNext), Entry(QueueStatements.makeDue), Entry(QueueStatements.block),
        Entry(DeadLetterStatements.count), Entry(DeadLetterStatements.drop),
        Entry(QueueStatements.pause), Entry(QueueStatements.resume), Entry(QueueStatements.pauses),
        Entry(QueueStatements.nameIntegrations), Entry(QueueStatements.integrations),
        Entry(QueueStatements.goneIntegrations), Entry(QueueStatements.putBackIntegrations),
        Entry(QueueStatements.unsettled), Entry(BreakerStatements.open), Entry(BreakerStatements.insert),
        Entry(BreakerStatements.remove),
        Entry(BreakerStatements.claimProbe), Entry(BreakerStatements.endProbe), Entry(RateStatements.reserve),
    ]

    private static let operating: [Entry] = [
        Entry(StatusStatements.integrations), Entry(StatusStatements.daemons), Entry(StatusStatements.rest),
        Entry(StatusStatements.sources), Entry(StatusStatements.answers), Entry(SourceReports.answers),
        Entry(SourceReports.heard), Entry(DaemonConfiguration.update), Entry(DaemonConfiguration.living),
        Entry(EventHandleStatements.byTransaction), Entry(EventHandleStatements.byHolder),
        Entry(EventHandleStatements.byMessage), Entry(EventHandleStatements.byTransfer),
        Entry(EventHandleStatements.byEventKey), Entry(EventHandleStatements.byEventHash),
        Entry(EventHandleStatements.scopes),
        Entry(EventHandleStatements.scan), Entry(EventListStatements.of), Entry(EventListStatements.newest),
        Entry(EventListStatements.bounds), Entry(EventListStatements.probe), Entry(DeliveryListStatements.waiting),
        Entry(DeliveryListStatements.dead), Entry(DeliveryListStatements.delivered),
        Entry(RequeueStatements.lockPurchases),
        Entry(RetryStatements.look), Entry(RetryStatements.later), Entry(RetryStatements.step),
        Entry(RetryStatements.probe),
        Entry(RequeueStatements.removeDeadLetters), Entry(ReplayStatements.start), Entry(ReplayStatements.message),
        Entry(ReplayStatements.page),
        Entry(ReplayStatements.end),
        Entry(BackfillStatements.bounds), Entry(BackfillStatements.unused),
        Entry(BackfillStatements.probe),
        Entry(BackfillStatements.page), Entry(BackfillStatements.envelopes), Entry(BackfillStatements.knownFrom),
        Entry(DiscardStatements.look),
        Entry(DiscardStatements.page), Entry(DiscardStatements.step),
        Entry(QuarantineStatements.list), Entry(QuarantineStatements.body), Entry(QuarantineStatements.setReason),
        Entry(QuarantineStatements.discard), Entry(QuarantineStatements.lock),
    ]

    private static let erasing: [Entry] = [
        Entry(EraseStatements.linked), Entry(EraseStatements.sharedInstalls), Entry(EraseStatements.sourcesOf),
        Entry(EraseStatements.standIns), Entry(EraseStatements.statesOf),
        Entry(EraseStatements.linkedElsewhere),
        Entry(EraseStatements.strayEvents), Entry(EraseStatements.purchasesOf), Entry(EraseStatements.eventsOf),
        Entry(EraseStatements.lockEvents),
        Entry(EraseStatements.messagesOf),
        Entry(EraseStatements.messagesOfOthers),
        Entry(EraseStatements.remember),
        Entry(EraseStatements.giveUp),
        Entry(EraseStatements.unsettled),
        Entry(EraseStatements.deadLetters),
        Entry(EraseStatements.excerpts),
        Entry(EraseStatements.messages),
        Entry(EraseStatements.eventKeys),
        Entry(EraseStatements.deleteEvents),
        Entry(EraseStatements.transfers),
        Entry(EraseStatements.entitlements),
        Entry(EraseStatements.links),
        Entry(EraseStatements.installIdentities), Entry(EraseStatements.identityInstalls),
        Entry(EraseStatements.installs),
        Entry(EraseStatements.changes),
        Entry(EraseStatements.changeTargets),
        Entry(EraseStatements.sources),
        Entry(EraseStatements.hasArrivals),
        Entry(EraseStatements.held),
        Entry(EraseStatements.company),
        Entry(EraseStatements.deletePurchase),
        Entry(EraseStatements.rewritePurchase),
        Entry(EraseScans.events),
        Entry(EraseScans.messages),
        Entry(EraseScans.quarantine),
        Entry(EraseScans.purchases),
        Entry(EraseScans.body),
        Entry(EraseScans.sharedKeys),
        Entry(EraseScans.passOnInStandard),
        Entry(EraseScans.rewriteBody),
        Entry(EraseScans.message),
        Entry(EraseScans.deliveriesOfEvent),
        Entry(EraseScans.deliveriesOfMessage),
        Entry(EraseScans.rewriteMessage),
        Entry(EraseScans.quarantined),
        Entry(EraseScans.attemptWords),
        Entry(EraseScans.foundAttemptWords),
        Entry(EraseScans.lastWords),
        Entry(EraseScans.foundLastWords),
        Entry(EraseRecordStatements.found),
        Entry(EraseSampleStatements.tables),
    ]

    @Test("The server's types are the declared ones")
    func types() async throws {
        let ledger = try await TestLedger()
        let connection = try await ledger.connect()
        for entry in Self.catalogue {
            let described = try await connection.withSession(entry.describe)
            #expect(described.parameterOIDs == entry.parameterOIDs, "\(entry.name)")
            #expect(described.resultOIDs == entry.resultOIDs, "\(entry.name)")
        }
        await connection.close()
    }

    @Test("The catalogue holds every statement of the sources, and no name twice")
    func isComplete() throws {
        let names = Self.catalogue.map(\.name)
        #expect(Set(names).count == names.count)
        let declaration = /=\s*Statement<[\s\S]*?>\(\s*"(\w+)"/
        var declared: Set<String> = []
        for file in try Self.sources() {
            let text = try String(contentsOf: file, encoding: .utf8)
            declared.formUnion(text.matches(of: declaration).map { String($0.1) })
            // What the pattern above does not see must not exist.
            let mentions = text.matches(of: /=\s*Statement\b/).count
            #expect(mentions == text.matches(of: declaration).count, "\(file.lastPathComponent)")
        }
        #expect(declared.count > 40, "the pattern finds the declarations")
        #expect(declared.union(Self.tables.flatMap { $0.inserts.map(\.name) }) == Set(names))
    }

    /// INSERT converts what it can; COPY reads the bytes of a value as the column's type.
    @Test("Every table that is written is in the catalogue, and its columns have the declared types")
    func columns() async throws {
        let declaration = /=\s*Table<[\s\S]*?>\(\s*"(\w+)"/
        var declared: Set<String> = []
        for file in try Self.sources() {
            let text = try String(contentsOf: file, encoding: .utf8)
            declared.formUnion(text.matches(of: declaration).map { String($0.1) })
            #expect(text.matches(of: /=\s*Table</).count == text.matches(of: declaration).count)
        }
        #expect(declared == Set(Self.tables.map(\.name)))
        try await TestLedger.run { ledger in
            for table in Self.tables {
                let types = try ledger.psql(
                    "SELECT attname, atttypid FROM pg_attribute WHERE attrelid = '\(table.name)'::regclass")
                let columns = types.split(separator: "\n").map { $0.split(separator: "|").map(String.init) }
                let found = Dictionary(uniqueKeysWithValues: columns.map { ($0[0], UInt32($0[1])) })
                for (column, type) in table.columns { #expect(found[column] == type, "\(table.name).\(column)") }
            }
        }
    }

    private static func sources() throws -> [URL] {
        let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let folder = root.appendingPathComponent("Sources/Ledger")
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
        return (files?.allObjects as? [URL] ?? []).filter { $0.pathExtension == "swift" }
    }
}
