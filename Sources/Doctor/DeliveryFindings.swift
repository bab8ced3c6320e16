package import Ledger
import Vocabulary

/// Judges the queues of the integrations, and the daemons that serve them.
package enum DeliveryFindings {
    /// An integration whose oldest delivery waits longer than this, in seconds, is mentioned.
    private static let oldestNoted: Double = 3_600

    /// A configured integration: by its name and its host alone, because the rest of its url may be secret.
    package struct Receiver: Sendable, Hashable {
        package let name: String
        package let host: String

        package init(name: String, host: String) {
            self.name = name
            self.host = host
        }
    }

    package static func of(_ status: LedgerStatus, receivers: [Receiver]) -> [DoctorFinding] {
        let known = Dictionary(firstOf: status.integrations.map { ($0.name, $0) })
        var found: [DoctorFinding] = []
        for receiver in receivers {
            if let integration = known[receiver.name] {
                found += ofIntegration(integration, "\(receiver.name) (\(receiver.host))")
            } else {
                found.append(
                    DoctorFinding(
                        .deliveries, .note, "\(receiver.name) (\(receiver.host)): no daemon has taken it up yet",
                        do: "systemctl reload posthouse"))
            }
        }
        let names = Set(receivers.map(\.name))
        for gone in status.integrations where !names.contains(gone.name) && gone.waiting > 0 {
            found.append(
                DoctorFinding(
                    .deliveries, .note,
                    "\(gone.name) is not in the configuration; \(gone.waiting) of its deliveries wait until it is back",
                    do: "configure it again, or posthouse discard \(gone.name)"))
        }
        if status.quarantined > 0 {
            found.append(
                DoctorFinding(
                    .deliveries, .note, "\(counted(status.quarantined, "webhook")) could not be read or stored",
                    do: "posthouse quarantine lists them"))
        }
        return found
    }

    private static func ofIntegration(_ integration: LedgerStatus.Integration, _ subject: String) -> [DoctorFinding] {
        let name = integration.name
        let oldest = integration.oldestSeconds.map {
            ", the oldest for \(PeriodText.write(milliseconds: Int64(max(0, $0)) * 1_000))"
        }
        let waiting = integration.waiting == 0 ? "nothing waits" : "\(integration.waiting) wait\(oldest ?? "")"
        var found: [DoctorFinding] = []
        if integration.pausedAt != nil, integration.waiting > 0,
            let reason = integration.pauseReason, reason != Pauses.byHand
        {
            // Resumed before that, it is paused again by the next answer.
            found.append(
                DoctorFinding(
                    .deliveries, .wrong, "\(subject): \(reason); \(waiting)",
                    do: "repair the receiver, then posthouse resume \(name)"))
        } else if integration.pausedAt != nil {
            found.append(
                DoctorFinding(
                    .deliveries, .note, "\(subject): \(integration.pauseReason ?? "paused"); \(waiting)",
                    do: "posthouse resume \(name)"))
        } else if let breaker = integration.breaker {
            found.append(
                DoctorFinding(
                    .deliveries, .wrong,
                    "\(subject): its circuit breaker is open since \(breaker.openedAt.iso8601): \(breaker.reason); "
                        + waiting,
                    do: "repair the receiver, then posthouse retry \(name)"))
        } else if let seconds = integration.oldestSeconds, seconds > oldestNoted {
            found.append(
                DoctorFinding(
                    .deliveries, .note, "\(subject): \(waiting)",
                    do: "posthouse deliveries --integration \(name) --state waiting says why"))
        } else {
            found.append(DoctorFinding(.deliveries, .fine, "\(subject): \(waiting)"))
        }
        if integration.deadLetters > 0 {
            found.append(
                DoctorFinding(
                    .deliveries, .note, "\(subject): \(counted(integration.deadLetters, "dead letter"))",
                    do: "posthouse deliveries --integration \(name) --state dead says why; posthouse replay sends them"
                ))
        }
        return found
    }

    /// - Parameter version: of this program.
    package static func daemons(_ daemons: [LedgerStatus.Daemon], version: String) -> [DoctorFinding] {
        guard !daemons.isEmpty else {
            return [
                DoctorFinding(
                    .deliveries, .wrong,
                    "no daemon serves this database: no webhook is accepted and nothing is delivered",
                    do: "systemctl start posthouse")
            ]
        }
        let versions = Set(daemons.map(\.version)).sorted()
        let text = "\(counted(daemons.count, "daemon")) \(daemons.count == 1 ? "serves" : "serve") this database"
        if versions.count > 1 {
            return [
                DoctorFinding(
                    .versions, .note, "\(text), of the versions \(versions.joined(separator: ", "))",
                    do: "end the upgrade: install the same version on each host")
            ]
        }
        if versions != [version] {
            return [
                DoctorFinding(
                    .versions, .note, "\(text), of version \(versions[0]); this program is \(version)",
                    do: "systemctl restart posthouse")
            ]
        }
        return [DoctorFinding(.versions, .fine, "\(text), of this program's version")]
    }
}
