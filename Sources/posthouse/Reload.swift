import Configuration
import Front
import Ledger
import Observing
import Outbound
import Vocabulary

extension Relay {
    /// Takes over a new configuration without refusing a request: all of it, or, if it throws, nothing.
    ///
    /// What can be wrong with it is found first; then the ledger learns of new sources and integrations, the lanes of
    /// new ones begin and those of removed ones end, and last of all the doors answer by it.
    func reload(to next: Configuration) async throws -> Reload {
        let plans = try LanePlan.make(next.integrations, version: Posthouse.version)
        if let tls = next.server.tls, configuration.current.server.tls != nil {
            try doors.renew(Front.TLSFiles(certificate: tls.certificate, key: tls.key))
        }
        try await SourceNames.remember(next.sources.map(\.name), in: pool)
        rules.learn(SourceRules.byName(next.sources))
        signings.learn(SourceSigning.byName(next.sources))
        let routed = try await queue.route(next.integrations)
        let lanes = try await dispatcher.adopt(routed, plans: plans, resolver: resolver)
        await dispatcher.wakeUp()
        doors.answer(by: makeParts(next))
        observatory.setDetail(perSecond: next.journal.detailPerSecond)
        let reload = Reload(from: configuration.current, to: next, lanes: lanes)
        configuration.replace(next)
        return reload
    }
}

/// What a reload changed, and what it could not.
struct Reload {
    /// For the journal and `systemctl status`.
    let summary: String

    init(from old: Configuration, to new: Configuration, lanes: LaneChanges) {
        var parts: [String] = []
        func tell(_ what: String, _ names: [String]) {
            if !names.isEmpty { parts.append("\(what) \(names.sorted().joined(separator: ", "))") }
        }
        tell("added integration", lanes.added)
        tell("changed integration", lanes.changed)
        tell("removed integration", lanes.removed)
        let known = Dictionary(old.sources.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        let names = Set(new.sources.map(\.name))
        tell("added source", new.sources.map(\.name).filter { known[$0] == nil })
        tell(
            "changed source",
            new.sources.filter { source in known[source.name].map { $0 != source } ?? false }.map(\.name))
        tell("removed source", old.sources.map(\.name).filter { !names.contains($0) })
        if old.apiTokens != new.apiTokens { parts.append("changed API tokens") }
        if old.subscriptionGroups != new.subscriptionGroups { parts.append("changed subscription groups") }
        if old.journal != new.journal { parts.append("changed [journal]") }
        if old.retention != new.retention { parts.append("changed [retention]") }
        if old.server.maxBodyBytes != new.server.maxBodyBytes { parts.append("changed [server] max_body") }
        if parts.isEmpty { parts.append("nothing differs from the one before") }
        let due = Self.dueAtRestart(old, new)
        if !due.isEmpty { parts.append("due at the next restart: \(due.joined(separator: ", "))") }
        summary = parts.joined(separator: "; ")
    }

    /// Keys whose new value needs a new process: sockets and the database are opened once.
    private static func dueAtRestart(_ old: Configuration, _ new: Configuration) -> [String] {
        var keys: [String] = []
        if old.server.listen != new.server.listen { keys.append("[server] listen") }
        if old.server.apiListen != new.server.apiListen { keys.append("[server] api_listen") }
        // The files of a listener with TLS are read anew; switching TLS on or off is another listener.
        if (old.server.tls == nil) != (new.server.tls == nil) { keys.append("[server] tls") }
        if old.database.url != new.database.url || old.database.usesPrivateCluster != new.database.usesPrivateCluster {
            keys.append("[database] url")
        }
        if old.database.poolConnections != new.database.poolConnections { keys.append("[database] pool") }
        if old.database.statementTimeout != new.database.statementTimeout {
            keys.append("[database] statement_timeout")
        }
        if new.database.usesPrivateCluster, old.embedded != new.embedded { keys.append("[embedded] directory") }
        return keys
    }
}
