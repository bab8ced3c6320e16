import ArgumentParser
import Configuration

/// An error with a text for the operator; `code` is the exit code.
struct Complaint: Error, CustomStringConvertible {
    let description: String
    let code: ExitCode

    init(_ description: String, code: ExitCode = .failure) {
        self.description = description
        self.code = code
    }

    /// A secret that only the daemon may read, and how a command reads it.
    /// - Parameter command: the command that needs it, with its arguments.
    static func unreadableSecret(of what: String, command: String) -> Complaint {
        Complaint(
            """
            the secret of \(what) cannot be read here (posthouse check names it); one that systemd hands to the daemon \
            can be read by root and by the daemon's user, while it runs: runuser -u posthouse -- posthouse \(command); of a \
            unit that runs by another file than \(ConfigurationFile.standardPath): CREDENTIALS_DIRECTORY=/run/credentials/UNIT \
            posthouse \(command) --config FILE
            """, code: Exit.configuration)
    }
}
