import ArgumentParser
import Configuration
import Glibc
import Observing
import Systemd

struct SecretCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "secret", abstract: "Store a secret for the daemon; list the stored ones.",
        discussion: """
            A secret is never in the configuration: that names it. As root on a machine with systemd a secret is a file \
            in /etc/posthouse/credentials that only root can read, and a drop-in of the unit hands it to the daemon as a \
            credential. Without systemd, or with --directory, it is a file that the daemon reads itself.
            """,
        subcommands: [ListSecrets.self, AddSecret.self], defaultSubcommand: ListSecrets.self)
}

/// The options that say where secrets are.
struct SecretLocationOptions: ParsableArguments {
    @Option(help: "A directory for files that the daemon reads itself; default: the unit's credentials, as root.")
    var directory: String?
    @Option(help: "The service of systemd that gets the credentials.") var unit = "posthouse"

    func validate() throws {
        guard SecretLocation.unitName(unit) != nil else {
            throw ValidationError("--unit must be the name of a service of systemd such as posthouse")
        }
        if let directory {
            guard !directory.isEmpty, directory.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                throw ValidationError("--directory must be a path without line breaks and other control characters")
            }
        }
    }

    /// The place, or why there is none.
    func place() throws -> SecretLocation {
        do throws(SecretLocation.Refusal) {
            return try SecretLocation.choose(
                isRoot: geteuid() == 0, hasSystemd: Systemctl.isManager, directory: directory,
                workingDirectory: Self.workingDirectory, unit: SecretLocation.unitName(unit) ?? unit)
        } catch {
            throw OperatorError(error.text)
        }
    }

    /// Empty where it is gone: then a relative path is none either.
    static var workingDirectory: String {
        guard let raw = getcwd(nil, 0) else { return "" }
        defer { free(raw) }
        return String(cString: raw)
    }
}

extension SecretLocation {
    /// The unit's text as systemd has it; nil where there is no unit.
    func unitText() async throws -> String? {
        guard let unit else { return nil }
        do throws(Systemctl.Failure) {
            return try await Systemctl.unitText(unit.name)
        } catch {
            throw OperatorError(
                "\(PlainText.harmless(error.text)); install the unit first, name another one with --unit, or store a "
                    + "file with --directory DIR")
        }
    }
}
