import Configuration
import Glibc
import Ledger
import Observing
import Systemd
import Vocabulary

/// Facts about this process from Linux and systemd.
enum ThisProcess {
    /// The command that this process runs, with its arguments, as a shell takes it; without what looks like a secret.
    /// The configuration's path is absolute: a unit of systemd's runs in `/`.
    static var commandLine: String {
        var isPath = false
        let words = CommandLine.arguments.dropFirst().map { word -> String in
            if SecretText.looksSecret(word) { return "…" }
            let text = isPath ? SecretStore.realPath(word) : word
            isPath = word == "--config"
            let isPlain = text.wholeMatch(of: #/[A-Za-z0-9_@%+=:,./-]+/#) != nil
            return isPlain ? text : "'" + text.replacing("'", with: "'\\''") + "'"
        }
        return PlainText.harmless((["posthouse"] + words).joined(separator: " "))
    }

    /// The line by which root has systemd run this command as the daemon's user, while no daemon runs. Without its mode
    /// systemd would open the state directory to everybody.
    /// - Parameter properties: further ones of the unit.
    static func transientUnit(_ properties: [String] = []) -> String {
        let all = ["User=posthouse", "StateDirectory=posthouse", "StateDirectoryMode=0700"] + properties
        return "systemd-run -Pq --collect \(all.map { "-p \($0) " }.joined())\(commandLine)"
    }

    /// This machine's wall clock.
    @Sendable static func now() -> Timestamp {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Timestamp(milliseconds: Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000)
    }

    /// The lock by which a restarted daemon takes over from its predecessor at once; nil: none, and leases run out. It
    /// lies in the unit's StateDirectory=, or else in `[embedded] directory` if that exists.
    static func stateLock(_ configuration: Configuration) -> StateLock? {
        StateLock.take(in: unitStateDirectory ?? configuration.embedded.directory)
    }

    /// The unit's StateDirectory=; nil: it was not started by a unit that has one.
    static var unitStateDirectory: String? {
        StateDirectory.ofUnit { name in getenv(name).map { String(cString: $0) } }
    }

    /// That of the daemon that runs by a configuration file, for a command; nil: it cannot tell. As with credentials,
    /// the directory of the package's unit counts for the file of that unit alone: another file is another daemon's.
    static func stateDirectory(of file: String) -> String? {
        let isOfPackage = SecretStore.realPath(file) == SecretStore.realPath(ConfigurationFile.standardPath)
        return unitStateDirectory ?? (isOfPackage ? stateDirectory : nil)
    }

    /// The daemon's state directory, as far as a command beside it can tell.
    static var stateDirectory: String {
        StateDirectory.resolve(
            environment: SecretReader.system.environment, isRoot: geteuid() == 0, owns: SecretReader.system.owns)
    }
}

extension StateLock.Mark {
    /// The id of a daemon in the ledger.
    var key: Identifier { KeyHash.daemon(machine: machine, device: device, inode: inode, token: token) }
}
