import ArgumentParser
import Configuration
import JSONText
import Observing

struct ListSecrets: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List secrets: their age and what uses them, never what they are.",
        discussion: """
            Those that are stored, and those that the configuration names. AGE is the time since a secret was last \
            written. MODE should be 0600. STATE is ready; missing: nothing is stored, and the daemon will not take the \
            configuration; not handed over: no LoadCredential= line of the unit names the file; unknown: this user may \
            not see the file, or a credential is named and no unit of systemd is asked. USED BY is - for a \
            secret that the configuration does not name, and ? if the configuration cannot be read; then the exit \
            code is 78.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var options: SecretLocationOptions
    @OptionGroup var output: OutputOption

    func run() async throws {
        try await Terminal.reporting {
            let place = try options.place()
            let unit = try await place.unitText()
            let (named, problem) = configured()
            let secrets = SecretInventory.list(
                place, stored: try SecretStore.names(in: place.directory),
                handedOver: unit.map { UnitCredentials.all(in: $0) }, named: named, look: SecretStore.look,
                realPath: SecretStore.realPath)
            if output.json {
                Terminal.print { write(secrets, place, into: &$0) }
            } else if secrets.isEmpty {
                Terminal.printToStandardError(
                    "no secret is stored in \(PlainText.harmless(place.directory)), and none is named")
            } else {
                show(secrets)
            }
            if let problem { throw OperatorError(problem, code: Exit.configuration) }
        }
    }

    /// What the configuration names; nil, and why, if it cannot be read.
    private func configured() -> (named: [NamedSecret]?, problem: String?) {
        let path = SecretLocation.absolute(file.path, from: SecretLocationOptions.workingDirectory)
        let shown = PlainText.harmless(file.path)
        switch SecretReader.system.readFile(path, ConfigurationLimits.fileBytesMax) {
        case .failure(let failure):
            return (nil, "\(shown) cannot be read: \(failure.text); --config FILE names another")
        case .success(let text):
            let named = SecretReferences.named(in: text.bytes, fileName: path)
            return (named, named == nil ? "\(shown) is not TOML: posthouse check says where" : nil)
        }
    }

    private func show(_ secrets: [ListedSecret]) {
        var table = Table([
            .init(title: "NAME", shrinksTo: 12), .init(title: "AGE", isNumber: true),
            .init(title: "MODE", dropsFirst: 1), .init(title: "STATE"), .init(title: "USED BY", shrinksTo: 12),
        ])
        table.rows = secrets.map { secret in
            let mode = secret.facts?.mode
            let tone: Table.Tone =
                switch secret.state {
                case .ready: .plain
                case .missing: .bad
                case .notHandedOver, .unknown: .careful
                }
            let users = secret.usedBy.map { $0.isEmpty ? "-" : $0.joined(separator: ", ") }
            return [
                .init(secret.name), .init(secret.facts.map { Age.text(seconds: Double($0.ageSeconds)) } ?? "-"),
                .init(mode.map(Self.octal) ?? "-", mode == nil || mode == 0o600 ? .plain : .careful),
                .init(secret.state.rawValue.replacing("_", with: " "), tone), .init(users ?? "?"),
            ]
        }
        Terminal.print(table)
    }

    /// Four digits, as chmod(1) takes them.
    private static func octal(_ mode: UInt32) -> String {
        let digits = String(mode, radix: 8)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }

    private func write(_ secrets: [ListedSecret], _ place: SecretLocation, into json: inout JSONWriter) {
        json.member("directory", place.directory)
        json.member("unit", place.unit?.name)
        json.member("secrets", objects: secrets) { secret, json in
            json.member("name", secret.name)
            json.member("file", secret.path)
            json.member("age_seconds", secret.facts?.ageSeconds)
            json.member("mode", secret.facts?.mode.map(Self.octal))
            json.member("state", secret.state.rawValue)
            json.key("used_by")
            guard let users = secret.usedBy else { return json.null() }
            json.array { json in for user in users { json.string(user) } }
        }
    }
}
