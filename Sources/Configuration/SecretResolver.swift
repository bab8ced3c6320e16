internal import Vocabulary

/// What a configuration is read for.
package enum Purpose: Sendable, Hashable {
    /// A person checks it, perhaps outside the unit, or systemd before a reload: what cannot be read here is a warning,
    /// and missing. Within the unit, a credential that is not there is an error.
    case check
    /// A command runs by it, perhaps while no daemon runs and with the credentials that it needs itself alone: as for
    /// `.check`, but a credential that is not there is never an error. The command reports it where it needs it.
    case command
    /// The daemon runs by it: what cannot be read is an error.
    case serve
}

/// The three places where a secret may be.
enum SecretReference: Sendable, Hashable {
    case credential(String)
    case environment(String)
    case file(String)

    /// Names the place, never its contents.
    var text: String {
        switch self {
        case .credential(let name): "the credential \(Quote.value(name))"
        case .environment(let name): "the environment variable \(Quote.value(name))"
        case .file(let path): "the file \(Quote.value(path))"
        }
    }

    /// What to do if nothing is there.
    var remedy: String {
        switch self {
        case .credential(let name):
            // A name that may be a secret by mistake is not repeated.
            return "posthouse secret add \(SecretName.isValid(name) ? name : "NAME") stores it and hands it over"
        case .environment:
            // A process keeps the environment that it was started with.
            return "Environment= or EnvironmentFile= below [Service] sets it, from a restart on "
                + "(systemctl edit posthouse)"
        case .file: return "write the secret into it, or correct the path"
        }
    }
}

/// Fetches what a reference names.
struct SecretResolver: Sendable {
    enum Outcome: Sendable {
        case read(Secret, isReadableByOthers: Bool)
        /// `isExcused`: it may well be readable where the daemon runs, and what it is read for allows that.
        case unreadable(reason: String, isExcused: Bool)
        case empty
    }

    let purpose: Purpose
    let reader: SecretReader
    /// The path of the configuration file.
    let file: String

    /// Its directory, without a slash at the end; nil: the working directory.
    private var directory: String? { file.lastIndex(of: "/").map { String(file[..<$0]) } }

    /// Whether systemd has handed this process no credentials, as it does within the unit alone.
    var isOutsideUnit: Bool { reader.environment(Self.credentialsDirectory) == nil }

    /// Set by systemd for LoadCredential= and SetCredential= (systemd.exec(5)).
    private static let credentialsDirectory = "CREDENTIALS_DIRECTORY"

    /// Resolves a path; a relative one counts from the directory of the configuration file.
    func path(_ text: String) -> String {
        guard let directory, !text.hasPrefix("/") else { return text }
        return directory + "/" + text
    }

    func resolve(_ reference: SecretReference) -> Outcome {
        switch reference {
        case .environment(let name):
            guard let value = reader.environment(name) else {
                return .unreadable(
                    reason: purpose == .serve ? "it is not set; \(reference.remedy)" : "it is not set",
                    isExcused: purpose != .serve)
            }
            return outcome(Array(value.utf8), isReadableByOthers: false)
        case .credential(let name):
            if let credentials = reader.environment(Self.credentialsDirectory) {
                return read(credentials + "/" + name, of: reference, judgesMode: false)
            }
            // What is not among them may come with the next reload.
            if purpose != .serve, let credentials = reader.daemonsCredentials(file) {
                let path = credentials + "/" + name
                switch reader.readFile(path, ConfigurationLimits.secretBytesMax) {
                case .failure(.notFound), .failure(.notPermitted): break
                default: return read(path, of: reference, judgesMode: false)
                }
            }
            // A command beside a unit that runs by another file than the package's has to say which unit it is.
            let remedy = purpose == .serve ? "" : "; /run/credentials/UNIT is that of a unit that runs"
            return .unreadable(
                reason: "$CREDENTIALS_DIRECTORY is not set, as it is outside the unit\(remedy)",
                isExcused: purpose != .serve)
        case .file(let path):
            return read(self.path(path), of: reference, judgesMode: true)
        }
    }

    /// Whether the daemon may well read a file that cannot be read here: what a person may not read, what systemd shows
    /// to no other command of the unit, and what it hands to the daemon alone.
    func excuses(_ failure: SecretReader.Failure, at path: String, isCredential: Bool = false) -> Bool {
        switch failure {
        case .notPermitted: purpose != .serve
        case .notFound:
            (purpose == .command || purpose == .check && isOutsideUnit)
                && (isCredential || path.hasPrefix("/run/credentials/"))
        case .notARegularFile, .larger, .failed: false
        }
    }

    /// Why a credential that is excused is not there, after "cannot be read here: ".
    static let handedToDaemon = "systemd hands it to the daemon, while that runs"

    private func read(_ path: String, of reference: SecretReference, judgesMode: Bool) -> Outcome {
        switch reader.readFile(path, ConfigurationLimits.secretBytesMax) {
        case .success(let file):
            return outcome(file.bytes, isReadableByOthers: judgesMode && file.isReadableByOthers)
        case .failure(.notFound):
            let isExcused = excuses(.notFound, at: path, isCredential: !judgesMode)
            let missing = "\(SecretReader.Failure.notFound.text); \(reference.remedy)\(start(of: reference))"
            return .unreadable(reason: isExcused ? Self.handedToDaemon : missing, isExcused: isExcused)
        case .failure(let failure):
            return .unreadable(reason: failure.text, isExcused: excuses(failure, at: path))
        }
    }

    /// From where the path counts; empty unless it is a relative one.
    private func start(of reference: SecretReference) -> String {
        guard case .file(let path) = reference, !path.hasPrefix("/") else { return "" }
        guard let directory else { return ", which counts from the working directory" }
        return ", which counts from `\(directory.isEmpty ? "/" : Quote.printable(directory))`"
    }

    private func outcome(_ bytes: [UInt8], isReadableByOthers: Bool) -> Outcome {
        let bytes = SecretText.withoutLineBreak(bytes)
        return bytes.isEmpty ? .empty : .read(Secret(bytes), isReadableByOthers: isReadableByOthers)
    }
}
