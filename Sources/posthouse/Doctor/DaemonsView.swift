import Configuration
import Doctor
import Glibc

/// What root, who reads everything, finds out for `posthouse check` about the daemon's own view of a configuration.
/// Nothing for other users, and nothing within the unit.
enum DaemonsView {
    private static let ofOtherUnit =
        "; those of a unit that runs by this file are in /run/credentials/UNIT, which CREDENTIALS_DIRECTORY may name"

    /// One line each.
    static func warnings(_ outcome: LoadOutcome, path: String) async -> [String] {
        guard geteuid() == 0, getenv("CREDENTIALS_DIRECTORY") == nil else { return [] }
        let unread = outcome.outside.unreadCredentials
        var warnings: [String] = []
        if !unread.isEmpty {
            warnings.append(
                "\(unread.count) \(unread.count == 1 ? "credential" : "credentials") cannot be read here: systemd hands "
                    + "credentials over when the daemon starts or reloads: \(unread.joined(separator: ", "))"
                    + (path == ConfigurationFile.standardPath ? "" : ofOtherUnit))
        }
        guard let units = try? await UnitExamination.units(),
            let service = units.first(where: { $0.id == UnitFindings.service && $0.isLoaded })
        else { return warnings }
        if let loaded = try? await UnitExamination.credentials() {
            let missing = CredentialFindings.unloaded(
                outcome.outside.credentials, loaded: loaded, status: Examination.status)
            warnings += missing.map {
                "the unit does not hand over the credential \($0): posthouse secret add \($0) stores it and adds the line"
            }
        }
        let paths = ([path] + outcome.outside.files).map(Examination.absolute)
        warnings += Examination.ofReading(paths, service).filter { $0.state == .wrong }.map { finding in
            finding.text + (finding.advice.map { "; \($0)" } ?? "")
        }
        return warnings
    }
}
