import Configuration
package import Ledger

/// Judges whether the daemons of one ledger are configured alike. Messages are made by the configuration of the daemon
/// that records their event: where another daemon has an integration and this one has not, that integration misses them.
package enum DaemonConfigurationFindings {
    /// Findings that are listed.
    private static let listed = 8
    private static let advice = "make posthouse.toml alike on all hosts and reload each daemon"

    /// - Parameter daemons: the living ones that say how they are configured.
    package static func of(_ daemons: [DaemonConfiguration]) -> [DoctorFinding] {
        guard daemons.count > 1 else { return [] }
        let sections = Set(daemons.flatMap { $0.digests.keys }).sorted()
        let found = sections.flatMap { ofSection($0, daemons) }
        guard !found.isEmpty else {
            return [DoctorFinding(.configuration, .fine, "\(counted(daemons.count, "daemon")) are configured alike")]
        }
        let more = found.count - listed
        guard more > 0 else { return found }
        let rest = "the daemons differ in \(counted(more, "more place"))"
        return Array(found.prefix(listed)) + [DoctorFinding(.configuration, .wrong, rest, do: advice)]
    }

    private static func ofSection(_ section: String, _ daemons: [DaemonConfiguration]) -> [DoctorFinding] {
        let having = daemons.filter { $0.digests[section] != nil }
        // Another version may make another digest of the same section.
        let byVersion = Dictionary(grouping: having, by: \.version).values
        let ways = byVersion.reduce(0) { most, alike in max(most, Set(alike.map { $0.digests[section] }).count) }
        func differs(_ consequence: String, do advice: String) -> [DoctorFinding] {
            guard ways > 1 else { return [] }
            let text =
                "\(having.count) of \(counted(daemons.count, "daemon")) have the \(section), configured in \(ways) ways: "
                + consequence
            return [DoctorFinding(.configuration, .wrong, text, do: advice)]
        }
        guard section.hasPrefix(Configuration.integrationPrefix) else {
            // A source that one host alone has is no fault.
            return differs("what is recorded depends on which of them takes it in", do: advice)
        }
        let backfill = "\(advice), then posthouse backfill \(section.dropFirst(Configuration.integrationPrefix.count))"
        let lacking = daemons.count - having.count
        let who = lacking == 1 ? ("has", "it records") : ("have", "they record")
        let lacks = DoctorFinding(
            .configuration, .wrong,
            "\(lacking) of \(counted(daemons.count, "daemon")) \(who.0) no \(section): what \(who.1) is not sent there",
            do: "\(backfill) --since the time when the first of them had it")
        return (lacking > 0 ? [lacks] : [])
            + differs(
                "what is sent there depends on which of them records it",
                do: "\(backfill) --since the time when the first of them was changed")
    }
}
