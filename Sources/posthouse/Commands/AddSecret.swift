import ArgumentParser
import Configuration
import Glibc
import JSONText
import Observing
import Systemd
import Vocabulary

struct AddSecret: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Store a secret, made here or taken from standard input.",
        discussion: """
            Without --make the secret is what standard input holds, without the line break at its end; a terminal is \
            asked for one line and does not show it. Prints what the configuration says to name the secret, and what \
            the other side needs: of a made secret whsec_… the secret itself, this once; of whsk_… its public half. \
            Examples:
              posthouse secret add source-secret
              posthouse secret add backend-secret --make whsec
              posthouse secret add tls-key <key.pem
            """)

    @OptionGroup var options: SecretLocationOptions
    @OptionGroup var output: OutputOption
    @Argument(help: "The name of the secret.") var name: String
    @Option(help: "Make it: whsec, shared with the receiver, or whsk, an ed25519 key with a public half for it.")
    var make: String?
    @Flag(help: "Replace a secret of this name.") var replace = false

    func validate() throws {
        // A name that is refused may be a secret by mistake: it is not repeated.
        guard SecretName.isValid(name) else { throw ValidationError("the name must be \(SecretName.expected)") }
        guard make == nil || kind != nil else {
            let kinds = SigningKeyKind.allCases.map(\.rawValue).joined(separator: " or ")
            throw ValidationError("--make must be \(kinds)")
        }
    }

    private var kind: SigningKeyKind? { make.flatMap { SigningKeyKind(rawValue: $0) } }

    func run() async throws {
        try await Terminal.reporting {
            let place = try options.place()
            let path = place.path(name)
            // Before the secret is asked for.
            try refuseTaken(path, place, try await line(in: place, path))
            let stored = try secret()
            let hasReplaced = try await store(stored, at: path, in: place)
            let applies = await Self.applying(in: place)
            report(stored, path, place, hasReplaced: hasReplaced, applies: applies)
            try await handOver(path, in: place)
        }
    }

    /// What the drop-in needs; nil where there is no unit.
    private func line(in place: SecretLocation, _ path: String) async throws -> CredentialDropIn.Decision? {
        guard let unit = place.unit, let text = try await place.unitText() else { return nil }
        let decision = CredentialDropIn.decide(
            name: name, path: path, unit: text, dropIn: try SecretStore.read(unit.dropIn))
        switch decision {
        case .elsewhere(let other):
            throw OperatorError(
                "\(unit.name) takes the credential \(name) from \(PlainText.harmless(other)), not from \(path): "
                    + "nothing was stored; write the secret there, choose another name, or take that line away "
                    + "(systemctl cat \(unit.name) shows it)")
        case .encrypted(let other):
            throw OperatorError(
                "\(unit.name) has the line \(PlainText.harmless(other)), by which systemd decrypts the file: nothing "
                    + "was stored; encrypt the secret yourself (systemd-creds encrypt), choose another name, or take "
                    + "that line away (systemctl cat \(unit.name) shows it)")
        case .present, .write: return decision
        }
    }

    private func refuseTaken(_ path: String, _ place: SecretLocation, _ line: CredentialDropIn.Decision?) throws {
        guard SecretStore.exists(path) else { return }
        if replace { return try SecretStore.refuseLink(path) }
        guard let unit = place.unit, case .write? = line else { throw OperatorError(SecretStore.existsText(path)) }
        throw OperatorError(
            "\(PlainText.harmless(path)) is there already and stays, but no LoadCredential= line of \(unit.name) hands "
                + "it over; posthouse secret add \(name) --replace stores the secret again and adds the line")
    }

    private func secret() throws -> Secret {
        if let kind { return SigningKeyText.make(kind) }
        let bytes = try SecretInput.read(name)
        do throws(SecretText.Refusal) {
            let secret = try SecretText.read(bytes)
            if let problem = SigningKeyText.problem(of: secret) {
                Terminal.printToStandardError(
                    "posthouse: this is not a secret for an integration: it \(problem.text); stored as it is", .warning)
            }
            return secret
        } catch {
            throw OperatorError(error.text)
        }
    }

    /// Writes the file, then the line; without the line a new file is taken away again.
    /// - Returns: whether there was a file of this name.
    private func store(_ secret: Secret, at path: String, in place: SecretLocation) async throws -> Bool {
        try SecretStore.makeDirectory(place.directory, mode: 0o700)
        let bytes = SecretText.file(secret)
        guard let unit = place.unit else {
            let isThere = SecretStore.exists(path)
            try SecretStore.write(bytes, to: path, mode: 0o600, replacing: replace ? .keepingOwner : .nothing)
            return isThere
        }
        let lock = try SecretStore.lock(place.directory)
        defer { close(lock) }
        // While the secret was asked for, the drop-in may have got other lines.
        let decision = try await line(in: place, path)
        try refuseTaken(path, place, decision)
        let isThere = SecretStore.exists(path)
        try SecretStore.write(bytes, to: path, mode: 0o600, replacing: replace ? .whatIsThere : .nothing)
        guard case .write(let dropIn)? = decision else { return isThere }
        do {
            let directory = unit.dropIn.split(separator: "/").dropLast().joined(separator: "/")
            try SecretStore.makeDirectory("/" + directory, mode: 0o755)
            try SecretStore.write(dropIn, to: unit.dropIn, mode: 0o644, replacing: .whatIsThere)
        } catch {
            if !isThere { SecretStore.remove(path) }
            throw error
        }
        return isThere
    }

    /// Has systemd read the drop-in, and looks whether the line counts.
    private func handOver(_ path: String, in place: SecretLocation) async throws {
        guard let unit = place.unit else { return }
        do throws(Systemctl.Failure) {
            try await Systemctl.reloadUnits()
        } catch {
            throw OperatorError(
                "the secret and its line in \(unit.dropIn) are stored, but systemd has not read the line: "
                    + "\(PlainText.harmless(error.text)); run systemctl daemon-reload")
        }
        let text = try await place.unitText() ?? ""
        guard UnitCredentials.loaded(in: text)[name]?.source == path else {
            throw OperatorError(
                "the secret and its line in \(unit.dropIn) are stored, but a later drop-in of \(unit.name) takes the "
                    + "line back (an empty LoadCredential=); systemctl cat \(unit.name) shows it")
        }
    }

    // MARK: What it says

    /// The command of systemctl that hands a secret to the daemon that runs.
    private static func applying(in place: SecretLocation) async -> String {
        guard place.unit != nil else { return "reload" }
        return Systemctl.reloadHandsOver(await UnitExamination.version()) ? "reload" : "restart"
    }

    private func report(
        _ secret: Secret, _ path: String, _ place: SecretLocation, hasReplaced: Bool, applies: String
    ) {
        // Of what was taken in, the other side has what it needs.
        let shared = kind == .whsec ? secret.withBytes { String(decoding: $0, as: UTF8.self) } : nil
        let publicKey = SigningKeyText.publicText(of: secret)
        let isPEM = SecretText.isPEM(secret)
        let configured = isPEM ? place.keyReference(name) : place.reference(name)
        if output.json {
            return Terminal.print { json in
                json.member("name", name)
                json.member("file", path)
                json.member("replaced", hasReplaced)
                json.member("configuration", configured)
                json.member("unit", place.unit?.name)
                json.member("secret", shared)
                json.member("public_key", publicKey)
            }
        }
        var lines = ["\(name) is stored in \(path)" + (place.unit.map { ", a credential of \($0.name)" } ?? "")]
        let keys = isPEM ? "in tls of [server]" : "as secret, token or url"
        lines += ["", "In the configuration, \(keys):", "  \(configured)"]
        if let shared { lines += ["", "For the other side, shown this once:", "  \(shared)"] }
        if let publicKey { lines += ["", "For the other side, the public half:", "  \(publicKey)"] }
        lines += ["", "Then:"] + next(place, applies).map { "  \($0)" }
        Terminal.print(lines.map(PlainText.harmless).joined(separator: "\n"))
        for remark in remarks(place, hasReplaced: hasReplaced, applies) {
            Terminal.printToStandardError(Terminal.wrapped(PlainText.harmless(remark)))
        }
    }

    private func next(_ place: SecretLocation, _ applies: String) -> [String] {
        guard let unit = place.unit else {
            return ["posthouse check", "a reload of the daemon (SIGHUP), or its start"]
        }
        let service = unit.name.hasSuffix(".service") ? String(unit.name.dropLast(".service".count)) : unit.name
        return ["editor /etc/posthouse/posthouse.toml", "systemctl \(applies) \(service)"]
    }

    private func remarks(_ place: SecretLocation, hasReplaced: Bool, _ applies: String) -> [String] {
        var remarks: [String] = []
        if hasReplaced {
            remarks.append(
                "The secret before it is gone: after the \(applies) only the new one counts. "
                    + SecretStore.withoutGap + ".")
        }
        if place.unit == nil, geteuid() == 0, !hasReplaced {
            let (path, directory) = (place.path(name), place.directory)
            let (what, needed, paths) =
                SecretStore.isOfRootAlone(directory)
                ? ("the file and enter its directory", "both as its own", "\(directory) \(path)")
                : ("the file", "it as its own", path)
            remarks.append(
                "Only root can read \(what): a daemon of another user needs \(needed) (chown USER \(paths)).")
        }
        return remarks
    }
}
