internal import Vocabulary

// Secrets: where they are, and what they hold. No message here or elsewhere quotes one.

extension Check {
    /// The references of `secret` or `secrets`, in order.
    mutating func secretNodes(of view: TableView, isRequired: Bool) -> [TomlNode] {
        switch (view["secret"], view["secrets"]) {
        case (let one?, let many?):
            report.error(
                "`secrets` is given beside `secret`; write one of them", at: many.keySpan,
                note: ("`secret` is here", one.keySpan))
            return []
        case (let one?, nil): return [one.node]
        case (nil, let many?):
            guard case .array(let members) = many.node.value else {
                mismatch(many, "secrets", view)
                return []
            }
            guard !members.isEmpty, members.count <= ConfigurationLimits.secretsMax else {
                report.error(
                    "`secrets` must have from 1 to \(ConfigurationLimits.secretsMax) members", at: many.node.span)
                return []
            }
            return members
        case (nil, nil):
            if isRequired {
                report.error("`\(view.table.header)` needs `secret`: \(Schema.expectedSecret)", at: view.span)
            }
            return []
        }
    }

    /// Reads the secret that `node` refers to; nil after an error, and after the warning that it cannot be read here.
    /// Outside the unit root gets no warning for each credential: `OutsideReferences` lists them.
    mutating func secret(_ node: TomlNode, key: String) -> Secret? {
        guard let reference = reference(node, key: key) else { return nil }
        add(reference)
        switch secrets.resolve(reference) {
        case .read(let secret, let isReadableByOthers):
            if isReadableByOthers {
                report.warning(
                    "\(reference.text) can be read by everyone on this machine; chmod o-r would end that", at: node.span
                )
            }
            return secret
        case .empty:
            report.error("\(reference.text) is empty; `\(key)` needs a secret", at: node.span)
        case .unreadable(let reason, isExcused: true):
            if isRoot, secrets.isOutsideUnit, case .credential(let name) = reference, !SourceText.looksSecret(name) {
                outside.add(unreadCredential: name)
                return nil
            }
            report.warning("\(reference.text) cannot be read here: \(reason)", at: node.span)
        case .unreadable(let reason, isExcused: false):
            report.error("\(reference.text) cannot be read: \(reason)", at: node.span)
        }
        return nil
    }

    private mutating func add(_ reference: SecretReference) {
        switch reference {
        case .credential(let name): outside.add(credential: name)
        case .file(let path): outside.add(file: secrets.path(path))
        case .environment: break
        }
    }

    /// A key of Standard Webhooks that signs.
    mutating func signingKey(_ node: TomlNode, key: String) -> Integration.SigningKey? {
        guard let secret = secret(node, key: key) else { return nil }
        do throws(SigningKeyText.Failure) {
            return try SigningKeyText.read(secret)
        } catch {
            report.error("`\(key)` \(error.text)", at: node.span)
            return nil
        }
    }

    private mutating func reference(_ node: TomlNode, key: String) -> SecretReference? {
        guard let entries = node.entries else {
            if case .string = node.value {
                report.error(
                    "`\(key)` must not be in this file in clear text; write \(Schema.expectedSecret)", at: node.span)
            } else {
                report.error("`\(key)` must be \(Schema.expectedSecret), not \(node.kindName)", at: node.span)
            }
            return nil
        }
        guard let entry = entries.first, entries.count == 1, Schema.secretForms.contains(entry.key) else {
            let stray = entries.first { !Schema.secretForms.contains($0.key) }
            let near = stray.map { NearMiss.suffix($0.key, among: Schema.secretForms) } ?? ""
            report.error("`\(key)` must be one of \(Schema.expectedSecret)\(near)", at: stray?.keySpan ?? node.span)
            return nil
        }
        guard case .string(let text) = entry.node.value, isName(text, form: entry.key) else {
            report.error("`\(entry.key)` must be \(Self.nameWanted[entry.key] ?? "a string")", at: entry.node.span)
            return nil
        }
        switch entry.key {
        case "credential": return .credential(text)
        case "env": return .environment(text)
        default: return .file(text)
        }
    }

    private static let nameWanted = [
        "credential": "the name of a systemd credential, without a slash",
        "env": "the name of an environment variable",
        "file": "the path of a file",
    ]

    private func isName(_ text: String, form: String) -> Bool {
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { return false }
        switch form {
        case "credential": return text.utf8.count <= 255 && !text.contains("/") && text != "." && text != ".."
        case "env": return !text.contains("=")
        default: return true
        }
    }

    /// A file of keys that the daemon reads again and again, by its path.
    mutating func readableKeys(_ path: Located<String>) {
        outside.add(file: path.value)
        if case .failure(let failure) = secrets.reader.readFile(path.value, ConfigurationLimits.secretBytesMax) {
            unreadable(path, failure)
        }
    }

    /// Reports a file that cannot be read: a warning where the daemon may well read it.
    private mutating func unreadable(_ path: Located<String>, _ failure: SecretReader.Failure) {
        let file = "the file \(Quote.value(path.value))"
        if secrets.excuses(failure, at: path.value) {
            let reason = failure == .notFound ? SecretResolver.handedToDaemon : failure.text
            report.warning("\(file) cannot be read here: \(reason)", at: path.span)
        } else {
            report.error("\(file) cannot be read: \(failure.text)", at: path.span)
        }
    }

    /// A file that the daemon opens later, by its path.
    /// - Returns: whether it could be read here, and has a PEM block.
    mutating func readable(_ path: Located<String>, _ key: String, isSecret: Bool = false) -> Bool {
        outside.add(file: path.value)
        switch secrets.reader.readFile(path.value, ConfigurationLimits.certificateBytesMax) {
        case .success(let file):
            if isSecret, file.isReadableByOthers {
                report.warning(
                    "the file \(Quote.value(path.value)) can be read by everyone on this machine; chmod o-r would end that",
                    at: path.span)
            }
            if file.bytes.firstRange(of: "-----BEGIN ".utf8) != nil { return true }
            report.error("`\(key)` must be \("the path of a PEM file"); this file has no PEM block", at: path.span)
        case .failure(let failure): unreadable(path, failure)
        }
        return false
    }
}
