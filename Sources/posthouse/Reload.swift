import Configuration
import Front
import Ledger
import Observing
import Outbound
import Postgres
import Vocabulary

/// Takes over a new configuration without refusing a request: all of it, or nothing.
///
/// `prepare` finds whatever can be wrong with it, and waits for whatever must be waited for: files are read, and the
/// ledger learns names, which alone change nothing. `adopt` then can neither fail nor wait for anybody but our own
/// loops. Between the two a stop may come: what was prepared is let go.
struct Reloader: Sendable {
    /// What the process was started with: sockets and the database are still that.
    let started: Configuration
    let live: LiveConfiguration
    let pool: Pool
    let queue: Queue
    let rules: SourceRuleBook
    let signings: SourceSignings
    let dispatcher: Dispatcher
    let resolver: AddressResolver
    let doors: Doors
    let observatory: Observatory
    /// What answers requests under a configuration.
    let makeParts: @Sendable (Configuration) -> Doors.Parts

    /// A configuration that can be adopted.
    struct Prepared: Sendable {
        fileprivate let configuration: Configuration
        fileprivate let lanes: [PlannedLane]
        /// nil: the listeners have no certificate that could be renewed, or are to have none.
        fileprivate let certificate: TLSIdentity?
    }

    func prepare(_ next: Configuration) async throws -> Prepared {
        let plans = try LanePlan.make(next.integrations, version: Posthouse.version)
        // Where TLS is switched on by the file alone there is no listener for it yet: it is due at the next restart.
        let files = doors.speakTLS ? next.server.tls : nil
        let certificate = try files.map {
            try Front.TLSFiles(certificate: $0.certificate, key: $0.key).identity()
        }
        try await SourceNames.remember(next.sources.map(\.name), in: pool)
        let routed = try await queue.name(next.integrations)
        return Prepared(
            configuration: next, lanes: try PlannedLane.join(routed, plans), certificate: certificate)
    }

    /// The lanes of new integrations begin and those of removed ones end; last of all the doors answer by it.
    func adopt(_ prepared: Prepared) async -> Reload {
        let next = prepared.configuration
        rules.learn(SourceRules.byName(next))
        signings.learn(SourceSigning.byName(next.sources))
        queue.route(to: prepared.lanes.map(\.route))
        #if DEBUG
            Failpoint.reach(.reloadAdopting)
        #endif
        let lanes = await dispatcher.adopt(prepared.lanes, resolver: resolver)
        // It asks the database which lanes may open: not awaited, and tried again with the next poll.
        Task { await dispatcher.wakeUp() }
        doors.answer(by: makeParts(next))
        let hasNewCertificate = prepared.certificate.map { doors.renew($0) } ?? false
        observatory.setDetail(perSecond: next.journal.detailPerSecond)
        let reload = Reload(
            from: live.current, to: next, started: started, lanes: lanes, hasNewCertificate: hasNewCertificate)
        live.replace(next)
        return reload
    }
}

/// What a reload changed, and what it could not.
struct Reload {
    /// For the journal and `systemctl status`.
    let summary: String

    init(
        from old: Configuration, to new: Configuration, started: Configuration, lanes: LaneChanges,
        hasNewCertificate: Bool
    ) {
        var parts: [String] = []
        func tell(_ what: String, _ names: [String]) {
            if !names.isEmpty { parts.append("\(what) \(names.sorted().joined(separator: ", "))") }
        }
        tell("added integration", lanes.added.map(\.integration.name))
        tell("changed integration", lanes.changed.map(\.integration.name))
        tell("removed integration", lanes.removed.map(\.integration.name))
        let known = Dictionary(old.sources.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        let names = Set(new.sources.map(\.name))
        tell("added source", new.sources.map(\.name).filter { known[$0] == nil })
        tell(
            "changed source",
            new.sources.filter { source in known[source.name].map { $0 != source } ?? false }.map(\.name))
        tell("removed source", old.sources.map(\.name).filter { !names.contains($0) })
        if old.apiTokens != new.apiTokens { parts.append("changed API tokens") }
        if old.subscriptionGroups != new.subscriptionGroups { parts.append("changed subscription groups") }
        if hasNewCertificate { parts.append("new TLS certificate") }
        if old.journal != new.journal { parts.append("changed [journal]") }
        if old.retention != new.retention { parts.append("changed [retention]") }
        if old.server.maxBodyBytes != new.server.maxBodyBytes { parts.append("changed [server] max_body") }
        if parts.isEmpty { parts.append("nothing differs from the one before") }
        let due = new.dueAtRestart(since: started)
        if !due.isEmpty { parts.append("due at the next restart: \(due.joined(separator: ", "))") }
        summary = parts.joined(separator: "; ")
    }
}
