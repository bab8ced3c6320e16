import Configuration
package import Ledger

/// Judges whether the daemons of one ledger are configured alike. Messages are made by the configuration of the daemon
/// that records their event: where another daemon has an integration and this one has not, that integration misses
/// them.
package enum DaemonConfigurationFindings {
    private static let advice = "make posthouse.toml alike on all hosts and reload each daemon"

    /// - Parameter daemons: the living ones that say how they are configured.
    package static func of(_ daemons: [DaemonConfiguration]) -> [DoctorFinding] {
        guard daemons.count > 1 else { return [] }
        let sections = Set(daemons.flatMap { $0.digests.keys }).sorted()
        let found = sections.flatMap { ofSection($0, daemons) }
        guard found.isEmpty else { return found }
        let all = counted(daemons.count, "daemon")
        guard Set(daemons.map(\.version)).count == 1 else {
            let text =
                "\(all) have integrations, sources and subscription groups of the same names; whether these are "
                + "configured alike is known once all daemons have the same version"
            return [DoctorFinding(.configuration, .note, text)]
        }
        let text = "\(all) have the same integrations, sources and subscription groups"
        return [DoctorFinding(.configuration, .fine, text)]
    }

    private static func ofSection(_ section: String, _ daemons: [DaemonConfiguration]) -> [DoctorFinding] {
        let all = counted(daemons.count, "daemon")
        let having = daemons.filter { $0.digests[section] != nil }
        let lacking = daemons.count - having.count
        let isOne = lacking == 1
        // Another version may make another digest of the same section.
        let byVersion = Dictionary(grouping: having, by: \.version).values
        let ways = byVersion.reduce(0) { most, alike in max(most, Set(alike.map { $0.digests[section] }).count) }
        func lacks(
            _ state: DoctorFinding.State, _ consequence: String, do advice: String
        ) -> [DoctorFinding] {
            guard lacking > 0 else { return [] }
            let text = "\(lacking) of \(all) \(isOne ? "has" : "have") no \(section): \(consequence)"
            return [DoctorFinding(.configuration, state, text, do: advice)]
        }
        func differs(_ consequence: String, do advice: String) -> [DoctorFinding] {
            guard ways > 1 else { return [] }
            let text = "\(having.count) of \(all) have the \(section), configured in \(ways) ways: \(consequence)"
            return [DoctorFinding(.configuration, .wrong, text, do: advice)]
        }
        if section.hasPrefix(Configuration.integrationPrefix) {
            let name = section.dropFirst(Configuration.integrationPrefix.count)
            let backfill = "\(advice), then posthouse backfill \(name) --since the time when the first of them"
            return lacks(
                .wrong, "what \(isOne ? "it records" : "they record") is not sent there", do: "\(backfill) had it")
                + differs(
                    "what is sent there depends on which of them records or sends it",
                    do: "\(backfill) was changed; it sends what was not sent, and nothing again that was sent to "
                        + "another address or in another format")
        }
        if section.hasPrefix(Configuration.sourcePrefix) {
            // A host may have an address of its own, but its API answers for all. It has no `leeway` of this source.
            let consequence = isOne ? "it answers its webhooks 404, and its" : "they answer its webhooks 404, and their"
            return lacks(.wrong, "\(consequence) API ends no access of it by the clock", do: advice)
                + differs("what is recorded depends on which of them takes it in", do: advice)
        }
        return lacks(
            .wrong, "\(isOne ? "its" : "their") API does not know which products are in it", do: advice)
            + differs("what the API says of it depends on which of them answers", do: advice)
    }
}
