import ArgumentParser
import Configuration
import Doctor
import Glibc
import Ledger
import Postgres
import Vocabulary

/// Asks the database for `posthouse doctor`, over one connection. A question that is refused leaves the others.
struct DatabaseExamination {
    let configuration: Configuration
    /// The configuration file.
    let path: String

    private var isOwn: Bool { !configuration.database.usesPrivateCluster }

    func findings() async -> [DoctorFinding] {
        do {
            let settings = try DatabaseAccess.forCommand(configuration, statementTimeout: Examination.limit)
            let target =
                isOwn ? "\(settings)" : DatabaseFindings.target(privateCluster: configuration.embedded.directory)
            return try await DatabaseAccess.withPool(settings) { pool in await ask(pool, target) }
        } catch let error as OperatorError {
            // The url may be a secret that is not here, the private cluster may be another user's: that says nothing of
            // the database. That the private cluster was moved does.
            let isOfConfiguration = error.code == Exit.configuration
            let isHidden = isOwn ? isOfConfiguration : !isOfConfiguration && geteuid() != 0
            let state: DoctorFinding.State = isHidden ? .unknown : .wrong
            return [DoctorFinding(.database, state, "\(error)")]
        } catch {
            return [DoctorFinding(.database, .wrong, "\(error)")]
        }
    }

    private func ask(_ pool: Pool, _ target: String) async -> [DoctorFinding] {
        let facts: ServerFacts
        let schema: SchemaVersion
        do throws(DatabaseError) {
            if configuration.database.pooling == .session, try await PoolerProbe.findsPooler(pool.settings) {
                return [DoctorFinding(.database, .wrong, "\(target): \(Durability.Refusal.pooled)")]
            }
            facts = try await ServerFacts.read(from: pool)
            schema = try await SchemaVersion.read(from: pool)
        } catch {
            guard error.isConnectionLevel else { return [DoctorFinding(.database, .wrong, "\(target): \(error)")] }
            return [
                DatabaseFindings.unreachable(
                    target: target, reason: "\(error)", path: path, isRoot: geteuid() == 0,
                    privateCluster: isOwn ? nil : configuration.embedded.directory)
            ]
        }
        var found = DatabaseFindings.server(facts, target: target)
        found += await part(.database) { try await pooling(pool, hasLedger: schema.database != nil) }
        found += await part(.clock) {
            DatabaseFindings.clock(try await ClockReading.take(from: pool, now: ThisProcess.now))
        }
        found += await part(.settings) {
            let isDeclared = configuration.database.durability == .declared
            let refusal = try await pool.withSession { session throws(DatabaseError) in
                try Durability.unsafeServer(on: session, isDeclared: isDeclared)
            }
            let advice = isOwn ? try await ServerAdvice.lines(in: pool) : nil
            return DatabaseFindings.settings(
                refusal: refusal.map { "\($0)" }, isDeclared: isDeclared, advice: advice)
        }
        found += await part(.database) {
            let isCurrent = schema.database == schema.program
            let unfinished = isCurrent ? try await IndexMigration.unfinished(in: pool) : []
            return DatabaseFindings.schema(
                schema, named: configuration.database.schema, unfinished: unfinished,
                isDaemons: configuration.database.pooling == .session || configuration.database.namesDirectURL)
        }
        guard schema.database != nil else { return found }
        found += await part(.privileges) {
            DatabaseFindings.privileges(facts, missing: try await MissingPrivilege.read(from: pool))
        }
        found += await part(.tables) {
            let largest = try await TableSize.largest(DatabaseFindings.tablesShown, in: pool)
            return DatabaseFindings.tables(largest, databaseBytes: facts.databaseBytes)
        }
        found += await part(.deliveries) {
            let status = try await LedgerStatus.read(from: pool)
            let receivers = configuration.integrations.map {
                DeliveryFindings.Receiver(name: $0.name, host: $0.url.host)
            }
            return DeliveryFindings.of(status, receivers: receivers)
                + DeliveryFindings.daemons(status.daemons, version: Posthouse.version)
        }
        // An older schema does not have it.
        guard schema.database == schema.program else { return found }
        found += await part(.configuration) {
            DaemonConfigurationFindings.of(try await DaemonConfiguration.read(from: pool))
        }
        return found
    }

    private func pooling(_ pool: Pool, hasLedger: Bool) async throws -> [DoctorFinding] {
        let database = configuration.database
        let direct: PoolingFindings.Direct =
            switch try DirectConnection(database, as: database) {
            case .by(let settings): await examine(settings, pool, hasLedger: hasLedger)
            case .sameAsOthers, .none: database.namesDirectURL ? .hidden : .notNamed
            }
        return PoolingFindings.of(database.pooling, direct: direct)
    }

    private func examine(
        _ direct: ConnectionSettings, _ pool: Pool, hasLedger: Bool
    ) async -> PoolingFindings.Direct {
        do throws(DatabaseError) {
            guard hasLedger else {
                let isPooled = try await PoolerProbe.findsPooler(direct)
                return isPooled ? .unusable(reason: DirectConnection.pooled) : .usable
            }
            let isDeclared = configuration.database.durability == .declared
            let problem = try await LedgerMark.read(from: pool)
                .problem(with: direct, insteadOf: pool, isDeclared: isDeclared)
            guard let problem else { return .usable }
            return .unusable(reason: DirectConnection.refusal(direct, problem))
        } catch {
            return .unusable(reason: DirectConnection.refusal(direct, "\(error)"))
        }
    }

    private func part(
        _ area: DoctorFinding.Area, _ body: () async throws -> [DoctorFinding]
    ) async -> [DoctorFinding] {
        do {
            return try await body()
        } catch {
            return [DoctorFinding(area, .unknown, "\(error)")]
        }
    }
}
