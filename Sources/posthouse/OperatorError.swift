import ArgumentParser
import Configuration

/// An error with a text for the operator; `code` is the exit code.
struct OperatorError: Error, CustomStringConvertible {
    let description: String
    let code: ExitCode

    init(_ description: String, code: ExitCode = .failure) {
        self.description = description
        self.code = code
    }

    /// A secret that this command needs and cannot read, and how it reads one that is a credential.
    static func unreadableSecret(of what: String) -> OperatorError {
        let command = ThisProcess.commandLine
        let named = command.contains(" --config") ? command : "\(command) --config FILE"
        let unit = ThisProcess.transientUnit(["LoadCredential=NAME:\(SecretLocation.usualDirectory)/NAME"])
        return OperatorError(
            """
            the secret of \(what) cannot be read here (posthouse check names it). A credential can be read by root and \
            by the daemon's user, while the daemon runs: runuser -u posthouse -- \(command); of a unit that runs by \
            another file than \(ConfigurationFile.standardPath): CREDENTIALS_DIRECTORY=/run/credentials/UNIT \(named). \
            While no daemon runs, root hands it over, with a LoadCredential= for each that the command needs: \(unit)
            """, code: Exit.configuration)
    }
}
