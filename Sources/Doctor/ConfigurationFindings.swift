package import Configuration

/// What is wrong with the configuration itself, in short: `posthouse check` shows each finding with its line.
package enum ConfigurationFindings {
    /// Errors that are listed.
    private static let errorsListed = 5

    package static func of(_ outcome: LoadOutcome, path: String) -> [DoctorFinding] {
        let check = "posthouse check shows each with its line"
        let errors = outcome.errors
        guard let configuration = outcome.configuration, errors.isEmpty else {
            let listed = errors.prefix(errorsListed).map {
                DoctorFinding(.configuration, .wrong, $0.headline, do: check)
            }
            let more = errors.count - listed.count
            guard more > 0 else { return listed }
            return listed + [DoctorFinding(.configuration, .wrong, "\(counted(more, "further error"))", do: check)]
        }
        let text =
            "\(path): \(counted(configuration.sources.count, "source")), "
            + counted(configuration.integrations.count, "integration")
        guard outcome.warnings.isEmpty else {
            return [
                DoctorFinding(
                    .configuration, .note, "\(text), \(counted(outcome.warnings.count, "warning"))", do: check)
            ]
        }
        return [DoctorFinding(.configuration, .fine, text)]
    }
}
