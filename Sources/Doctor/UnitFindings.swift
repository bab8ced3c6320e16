/// Judges what systemd has of the service and its socket.
package enum UnitFindings {
    package static let service = "posthouse.service"
    package static let socket = "posthouse.socket"

    private static let reload = "systemctl daemon-reload && systemctl reload posthouse"

    /// - Parameter units: nil: no systemd runs here.
    package static func of(_ units: [UnitFacts]?) -> [DoctorFinding] {
        guard let units else {
            return [
                DoctorFinding(
                    .unit, .note,
                    "no systemd here: nothing starts the daemon again, and no unit hands over credentials")
            ]
        }
        guard let unit = units.first(where: { $0.id == service }), unit.loadState != "not-found" else {
            return [
                DoctorFinding(
                    .unit, .note, "systemd knows no \(service)",
                    do: "install the package (apt install ./posthouse_*.deb), or run systemctl daemon-reload")
            ]
        }
        guard unit.isLoaded else { return [unusable(unit)] }
        let own = [state(unit)] + enabled(unit) + changed(unit, do: reload)
        guard let listening = units.first(where: { $0.id == socket }) else { return own }
        return own + ofSocket(listening, service: unit)
    }

    private static func unusable(_ unit: UnitFacts) -> DoctorFinding {
        if unit.loadState == "masked" {
            return DoctorFinding(
                .unit, .wrong, "\(unit.id) is masked: nothing can start it", do: "systemctl unmask \(unit.id)")
        }
        return DoctorFinding(
            .unit, .wrong, "systemd cannot use \(unit.id): \(unit.loadState)", do: "systemctl status \(unit.id)")
    }

    private static func state(_ unit: UnitFacts) -> DoctorFinding {
        let read = "journalctl -u posthouse -p warning -x -e says why"
        switch unit.activeState {
        case "active", "reloading":
            guard unit.restarts > 0 else {
                return DoctorFinding(
                    .unit, .fine, "\(unit.id) is \(unit.activeState) (\(unit.subState)), process \(unit.process)")
            }
            return DoctorFinding(
                .unit, .note,
                "\(unit.id) is \(unit.activeState); systemd had to start it again "
                    + (unit.restarts == 1 ? "once" : "\(unit.restarts) times"), do: read)
        case "activating" where unit.subState == "auto-restart", "failed":
            return DoctorFinding(
                .unit, .wrong, "\(unit.id) does not run: \(unit.activeState) (\(unit.subState)), result \(unit.result)",
                do: read)
        case "activating", "deactivating":
            return DoctorFinding(.unit, .note, "\(unit.id) is \(unit.activeState) (\(unit.subState))")
        default:
            return DoctorFinding(
                .unit, .wrong,
                "\(unit.id) is \(unit.activeState): no webhook is accepted and nothing is delivered",
                do: "systemctl start posthouse")
        }
    }

    private static func enabled(_ unit: UnitFacts) -> [DoctorFinding] {
        guard unit.fileState == "disabled" else { return [] }
        return [
            DoctorFinding(
                .unit, .note, "\(unit.id) is disabled: it does not start with the machine",
                do: "systemctl enable posthouse")
        ]
    }

    private static func changed(_ unit: UnitFacts, do advice: String) -> [DoctorFinding] {
        let dropIns = unit.dropIns.isEmpty ? "" : ", with \(unit.dropIns.joined(separator: ", "))"
        if unit.needsReload {
            return [
                DoctorFinding(
                    .unit, .wrong,
                    "\(unit.id) was changed (\(unit.fragment)\(dropIns)), and systemd still has it as it was",
                    do: advice)
            ]
        }
        return [DoctorFinding(.unit, .fine, "\(unit.id) is \(unit.fragment)\(dropIns)")]
    }

    private static func ofSocket(_ unit: UnitFacts, service: UnitFacts) -> [DoctorFinding] {
        switch unit.loadState {
        case "loaded": break
        case "masked", "not-found":
            return [
                DoctorFinding(
                    .unit, .note,
                    "\(unit.id) is \(unit.loadState): the daemon opens its listeners itself, and refuses webhooks "
                        + "while it is restarted")
            ]
        default: return [unusable(unit)]
        }
        let restart = "systemctl stop posthouse; systemctl start posthouse.socket posthouse"
        let found: [DoctorFinding] =
            switch unit.activeState {
            case "active": []
            case "failed":
                [
                    DoctorFinding(
                        .unit, .wrong, "\(unit.id) has failed: \(unit.result)",
                        do: "journalctl -u posthouse.socket -e says why; then \(restart)")
                ]
            default:
                [
                    DoctorFinding(
                        .unit, service.isActive ? .note : .wrong,
                        "\(unit.id) is \(unit.activeState): webhooks are refused while the daemon does not run",
                        do: restart)
                ]
            }
        return found + changed(unit, do: "systemctl daemon-reload; \(restart)")
    }
}
