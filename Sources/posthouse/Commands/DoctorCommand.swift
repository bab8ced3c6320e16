import ArgumentParser
import Doctor
import JSONText
import Observing
import Vocabulary

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Check everything Posthouse needs, and say what to do.",
        discussion: """
            One page: the configuration, the unit and its drop-ins, credentials, whether the daemon's user can read the \
            configuration, the socket, the disk, the database with clock, privileges, settings, deliveries and largest \
            tables, certificates of the listener and of receivers, versions. Run as root it sees all of it. It changes \
            nothing and shows no secret; it opens a TLS connection to each https receiver and sends no request.
            ok: as it should be; note: worth knowing; WRONG: something fails because of it, or soon will; ?: it could not \
            be found out, and why. Exits 1 if something is wrong.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption

    func run() async throws {
        try await Terminal.reporting {
            guard !file.path.isEmpty else {
                throw OperatorError("--config names no file", code: Exit.configuration)
            }
            let findings = await Examination(path: file.path).findings()
            if output.json {
                Terminal.print { json in
                    json.member("at", ThisProcess.now())
                    json.member("version", Posthouse.version)
                    json.member("findings", objects: findings) { finding, json in
                        json.member("area", finding.area.rawValue)
                        json.member("state", finding.state.rawValue)
                        json.member("text", finding.text)
                        json.member("advice", finding.advice)
                    }
                }
            } else {
                Terminal.print(
                    DoctorPage.render(findings.map(harmless), width: Terminal.width, paint: paint))
            }
            if findings.contains(where: { $0.state == .wrong }) { throw ExitCode.failure }
        }
    }

    /// Texts of receivers, files and the database must not move the cursor.
    private func harmless(_ finding: DoctorFinding) -> DoctorFinding {
        DoctorFinding(
            finding.area, finding.state, PlainText.harmless(finding.text),
            do: finding.advice.map { PlainText.harmless($0) })
    }

    private func paint(_ state: DoctorFinding.State, _ mark: String) -> String {
        guard Terminal.outputIsColoured else { return mark }
        let tone: Table.Tone =
            switch state {
            case .fine: .good
            case .note, .unknown: .careful
            case .wrong: .bad
            }
        return tone.rawValue + mark + "\u{1B}[0m"
    }
}
