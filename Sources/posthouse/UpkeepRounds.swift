import Configuration
import Ledger
import Postgres
import Vocabulary

/// The upkeep of the ledger's tables: at the start, soon after it, and then every hour.
enum UpkeepRounds {
    /// Soon after the start, so that a daemon which is often restarted comes to it, too.
    private static let firstUpkeep: Duration = .seconds(300)

    /// At the start. A failure keeps no webhook from being recorded: the default partition takes the attempts.
    static func preparePartitions(_ upkeep: Upkeep, _ observe: Observer) async {
        do { try await upkeep.preparePartitions() } catch {
            observe(.warning("making the partitions of the coming days was postponed for an hour: \(error)"))
        }
    }

    static func beginPeriod(_ upkeep: Upkeep, _ observe: Observer) async -> Bool {
        do { return try await upkeep.beginPeriod() } catch {
            observe(
                .warning(
                    "advancing sequences, or creating the next partitions of events and messages, was postponed for an "
                        + "hour: \(error)"))
            return false
        }
    }

    private static func analyzePeriodTables(_ upkeep: Upkeep, _ observe: Observer) async {
        do { try await upkeep.analyzePeriodTables() } catch {
            observe(.warning("the new partitions could not be analyzed (ANALYZE): \(error)"))
        }
    }

    /// Whether what is over by the database's clock may be announced and deleted.
    /// - Parameter held: since when it may not; where that is long ago it may, whatever the partitions show.
    private static func mayPrune(
        _ upkeep: Upkeep, held: inout ContinuousClock.Instant?, _ observe: Observer
    ) async -> Bool {
        do {
            guard try await upkeep.followsGap() else {
                held = nil
                return true
            }
        } catch {
            observe(.warning("pruning was postponed for an hour: \(error)"))
            return false
        }
        let since = held ?? .now
        held = since
        if .now - since > heldMax { return true }
        observe(
            .warning(
                """
                by the database's clock no daemon ran for more than two weeks; in case that clock is ahead, nothing is \
                pruned and no access is announced as lapsed for two days at most: compare it with the true time, and \
                set it if it is wrong
                """))
        return false
    }

    private static let heldMax: Duration = .seconds(48 * 3_600)

    /// Makes the coming partitions, announces lapsed access and prunes every hour. Prunes the memory of duplicates,
    /// which reads a whole table, once a day.
    /// - Parameter isPeriodNew: a period has begun at the start.
    static func run(
        _ pool: Pool, _ configuration: LiveConfiguration, _ routes: Routes, isPeriodNew: Bool,
        _ observe: @escaping Observer
    ) async {
        var hoursSinceKeyPruning = 23
        var held: ContinuousClock.Instant?
        if isPeriodNew {
            await analyzePeriodTables(Upkeep(pool: pool, retention: configuration.current.retention), observe)
        }
        var pause = Failpoint.upkeepInterval ?? firstUpkeep
        while (try? await Task.sleep(for: pause)) != nil {
            pause = Failpoint.upkeepInterval ?? .seconds(3_600)
            let current = configuration.current
            let upkeep = Upkeep(
                pool: pool, retention: current.retention, integrations: current.integrations.map(\.name),
                alwaysNaming: current.sources.filter { !$0.kind.traits.mayLackName }.map(\.name),
                mayLackName: current.sources.filter(\.kind.traits.mayLackName).map(\.name), observe: observe)
            func attempt(_ what: String, _ body: () async throws -> Void) async {
                do { try await body() } catch { observe(.warning("\(what) was postponed for an hour: \(error)")) }
            }
            await attempt("making the partitions of the coming days") { try await upkeep.preparePartitions() }
            if await beginPeriod(upkeep, observe) { await analyzePeriodTables(upkeep, observe) }
            guard await mayPrune(upkeep, held: &held, observe) else { continue }
            // Before ends are pruned.
            await attempt("announcing lapsed access") {
                try await Lapses(pool: pool, routes: routes, leeways: Leeways(current.sources)).announce()
            }
            await attempt("pruning") { try await upkeep.prune() }
            await attempt("pruning the memory of duplicates") {
                guard hoursSinceKeyPruning >= 24 else { return }
                try await upkeep.pruneEventKeys()
                hoursSinceKeyPruning = 0
            }
            hoursSinceKeyPruning += 1
        }
    }
}
