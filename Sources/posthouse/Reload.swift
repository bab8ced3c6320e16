import Configuration
import HTTPClient
import HTTPServer
import Inbound
import Ledger
import Observing
import Outbound
import Postgres
import Spool
import Vocabulary

/// Applies a new configuration, all of it or nothing, without refusing a request.
///
/// `prepare` does everything that can fail or must wait: it reads files and records names in the ledger, which changes
/// nothing by itself. `adopt` can then neither fail nor wait for anything but the process's own event loops. A stop
/// between the two discards what was prepared.
struct Reloader: Sendable {
    /// The configuration at the start of the process, which still determines the sockets and the ledger.
    let started: Configuration
    let live: LiveConfiguration
    let pool: Pool
    /// The ledger that the daemon began with.
    let ledger: LedgerMark
    let queue: Queue
    let rules: SourceRuleBook
    let signings: SourceSignings
    let dispatcher: Dispatcher
    let resolver: AddressResolver
    let outgoing: OutgoingClients
    /// In the directory that the process began with.
    let spool: SpoolOpening
    let openListeners: OpenListeners
    let observatory: Observatory
    /// They make due what the reloads so far have said is due. One is not ended by the next, which is of others.
    let retries = Replaceable<[Task<Void, Never>]>([])
    /// Makes the request handlers for a configuration.
    let makeHandlers: @Sendable (Configuration) -> OpenListeners.Handlers

    /// A configuration that can be adopted.
    struct Prepared: Sendable {
        fileprivate let configuration: Configuration
        fileprivate let lanes: [PlannedLane]
        /// Rows of integrations.
        fileprivate let paused: Set<Int32>
        /// nil: the listeners have no certificate, or the new configuration names none.
        fileprivate let certificate: TLSCertificate?
        /// The system's, for requests to stores; nil: none has needed them yet.
        fileprivate let authorities: EndpointTrust?
        /// nil: as before.
        fileprivate let connection: ConnectionSettings?
    }

    func prepare(_ next: Configuration) async throws -> Prepared {
        let plans = try LanePlan.make(next.integrations, version: Posthouse.version)
        if let problem = StoreClients.problems(in: next).first { throw OperatorError(problem) }
        // TLS that only the new file switches on has no listener yet: it is due at the next restart.
        let files = openListeners.speakTLS ? next.server.tls : nil
        let certificate = try files.map { try $0.load() }
        let authorities = try await outgoing.readAuthorities()
        let former = pool.settings
        do {
            let connection = try await connection(by: next)
            try await checkDirect(next)
            let spooling = next.sources.filter(\.spools)
            if !spooling.isEmpty { try await spool.need(by: spooling, observatory.observer) }
            try await SourceNames.remember(next.sources.map(\.name), in: pool)
            let routed = try await queue.insert(next.integrations)
            return Prepared(
                configuration: next, lanes: try PlannedLane.join(routed, plans),
                paused: try await Pauses.paused(in: pool), certificate: certificate, authorities: authorities,
                connection: connection)
        } catch {
            // What is refused is not used, neither by the connections that it has opened.
            if !former.leadsLike(pool.settings) { pool.use(former, alone: true) }
            throw error
        }
    }

    /// Tries out the next `direct_url`, unless it is the one before; it is used from the next connection on.
    private func checkDirect(_ next: Configuration) async throws {
        guard next.database.directURL != live.current.database.directURL,
            case .by(let settings) = try DirectConnection(next.database, as: started.database)
        else { return }
        let problem: String?
        do throws(DatabaseError) {
            problem = try await ledger.problem(
                with: settings, insteadOf: pool, isDeclared: started.database.durability == .declared)
        } catch {
            problem = "\(error)"
        }
        if let problem { throw OperatorError("the new [database] direct_url (\(settings)): \(problem)") }
    }

    /// What new connections are opened by under the next configuration, tried out; nil: as before. Where the pool has
    /// lost its connections, it uses them at once: without the database nothing can be prepared, and the old password
    /// may be the reason. Nor is it proven then that a server which answers again by the settings before is the same.
    private func connection(by next: Configuration) async throws -> ConnectionSettings? {
        let first = started.database
        guard !first.usesPrivateCluster, let url = DatabaseAccess.url(next) else { return nil }
        let settings = try DatabaseAccess.settings(url, by: first)
        if settings.leadsLike(pool.settings) { return nil }
        let contact = pool.contact
        let problem: String?
        do throws(DatabaseError) {
            problem = try await ledger.problem(
                with: settings, insteadOf: pool, isDeclared: first.durability == .declared)
        } catch {
            problem = "\(error)"
        }
        if let problem { throw OperatorError("the new [database] url (\(settings)): \(problem)") }
        if contact == nil || pool.contact != contact {
            pool.use(settings, alone: true)
            let deadline = ContinuousClock.Instant.now + Limits.connectTimeout
            while !pool.isReachable, ContinuousClock.Instant.now < deadline {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        return settings
    }

    /// Applies a prepared configuration: begins the lanes of new integrations, ends those of removed ones, and then
    /// replaces the handlers of the listeners.
    func adopt(_ prepared: Prepared) async -> Reload {
        let next = prepared.configuration
        if let connection = prepared.connection, !connection.leadsLike(pool.settings) { pool.use(connection) }
        rules.merge(SourceRules.byName(next))
        signings.merge(SourceSigning.byName(next.sources))
        queue.route(to: prepared.lanes.map(\.route))
        Failpoint.reach(.reloadAdopting)
        let lanes = await dispatcher.adopt(prepared.lanes, resolver: resolver)
        if let authorities = prepared.authorities { outgoing.renew(authorities) }
        // Not awaited, because it queries the database for the lanes that may open; the next poll tries again.
        Task { await dispatcher.wakeUp() }
        openListeners.answer(by: makeHandlers(next))
        let withChangedConnection = Self.withChangedConnection(lanes.changed, since: live.current)
        // Also where it is paused: once it is resumed, all of it goes.
        if !withChangedConnection.isEmpty {
            let retry = Task {
                await queue.tryNow(withChangedConnection)
                await dispatcher.wakeUp()
            }
            retries.change { $0.append(retry) }
        }
        let hasNewCertificate = prepared.certificate.map { openListeners.renew($0) } ?? false
        observatory.setDetail(perSecond: next.journal.detailPerSecond)
        let reload = Reload(
            from: live.current, to: next, started: started, lanes: lanes, withChangedConnection: withChangedConnection,
            paused: prepared.paused, hasNewCertificate: hasNewCertificate,
            hasNewConnection: prepared.connection != nil)
        live.replace(next)
        return reload
    }

    /// Ends what goes on after reloads.
    func stop() { retries.current.forEach { $0.cancel() } }

    /// Integrations of which something has changed that may be why deliveries failed.
    private static func withChangedConnection(
        _ changed: [RoutedIntegration], since old: Configuration
    ) -> [RoutedIntegration] {
        let known = Dictionary(firstOf: old.integrations, by: \.name)
        return changed.filter { route in
            known[route.integration.name].map { !$0.reachesTheSame(as: route.integration) } ?? false
        }
    }
}

/// What a reload changed, and what is due at the next restart.
struct Reload {
    /// For the journal and `systemctl status`.
    let summary: String
    /// What it does to purchases, for the journal.
    let warnings: [String]

    init(
        from old: Configuration, to new: Configuration, started: Configuration, lanes: LaneChanges,
        withChangedConnection: [RoutedIntegration], paused: Set<Int32>, hasNewCertificate: Bool, hasNewConnection: Bool
    ) {
        var parts: [String] = []
        func list(_ what: String, _ names: [String]) {
            if !names.isEmpty { parts.append("\(what) \(names.sorted().joined(separator: ", "))") }
        }
        list("added integration", lanes.added.map(\.integration.name))
        let former = Dictionary(firstOf: old.integrations, by: \.name)
        // The others were replaced for a file, which may hold something else by now.
        let changed = lanes.changed.filter { former[$0.integration.name] != $0.integration }
        list("changed integration", changed.map(\.integration.name))
        list("removed integration", lanes.removed.map(\.integration.name))
        let known = Dictionary(firstOf: old.sources, by: \.name)
        let names = Set(new.sources.map(\.name))
        list("added source", new.sources.map(\.name).filter { known[$0] == nil })
        list(
            "changed source",
            new.sources.filter { source in known[source.name].map { $0 != source } ?? false }.map(\.name))
        list("removed source", old.sources.map(\.name).filter { !names.contains($0) })
        if old.apiTokens != new.apiTokens { parts.append("changed API tokens") }
        if old.subscriptionGroups != new.subscriptionGroups { parts.append("changed subscription groups") }
        if hasNewCertificate { parts.append("new TLS certificate") }
        if old.database.directURL != new.database.directURL { parts.append("changed [database] direct_url") }
        if hasNewConnection { parts.append("changed [database] url, for new connections") }
        if old.journal != new.journal { parts.append("changed [journal]") }
        if old.retention != new.retention { parts.append("changed [retention]") }
        if old.server.maxBodyBytes != new.server.maxBodyBytes { parts.append("changed [server] max_body") }
        list(
            "due now: what waits for",
            withChangedConnection.filter { !paused.contains($0.row) }.map(\.integration.name))
        list(
            "paused until posthouse resume:",
            (lanes.added + changed).filter { paused.contains($0.row) }.map(\.integration.name))
        if parts.isEmpty { parts.append("nothing differs from the one before") }
        let alike = lanes.changed.filter { former[$0.integration.name] == $0.integration }
        list("ca_file read again:", alike.map(\.integration.name))
        let due = new.dueAtRestart(since: started)
        if !due.isEmpty { parts.append("due at the next restart: \(due.joined(separator: ", "))") }
        summary = parts.joined(separator: "; ")
        warnings = NamingWarning.lines(from: old.sources, to: new.sources)
    }
}

extension Integration {
    /// Whether a request to either goes to the same place, with the same proof and over the same trust.
    fileprivate func reachesTheSame(as other: Integration) -> Bool {
        url == other.url && signingKeys == other.signingKeys && headers == other.headers
            && certificateAuthorityFile == other.certificateAuthorityFile
            && allowsPrivateAddresses == other.allowsPrivateAddresses
    }
}
