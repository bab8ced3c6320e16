/// A stored secret, or one that is named and missing; never its content.
package struct ListedSecret: Sendable, Hashable {
    package enum State: String, Sendable {
        case ready
        /// Nothing is where it should be.
        case missing
        /// The file is there, and the configuration names it as a credential, but no line of the unit hands it over.
        case notHandedOver = "not_handed_over"
    }

    /// What the file system says of it.
    package struct Facts: Sendable, Hashable {
        /// Since the last change of its content, in seconds.
        package let ageSeconds: Int
        /// The permission bits; nil for what is not a regular file.
        package let mode: UInt32?

        package init(ageSeconds: Int, mode: UInt32?) {
            self.ageSeconds = ageSeconds
            self.mode = mode
        }
    }

    /// Of the credential or the file; of a file elsewhere its path.
    package let name: String
    /// Nil for a credential that comes from nowhere.
    package let path: String?
    package let facts: Facts?
    package let state: State
    /// What names it in the configuration, each once; nil: the configuration is not known.
    package let usedBy: [String]?
}

/// Puts together what is stored, what the unit hands over, and what the configuration names.
package enum SecretInventory {
    /// In this order: the directory's files, credentials from elsewhere, files elsewhere, credentials from nowhere.
    /// - Parameters:
    ///   - stored: the names of files in the directory of `place`.
    ///   - handedOver: paths by name of credential (`UnitCredentials`); nil: there is no unit.
    ///   - named: nil: the configuration is not known.
    ///   - facts: of a path; nil where there is nothing.
    package static func list(
        _ place: SecretPlace, stored: [String], handedOver: [String: String]?, named: [NamedSecret]?,
        facts: (_ path: String) -> ListedSecret.Facts?
    ) -> [ListedSecret] {
        var credentialUsers: [String: [String]] = [:]
        var fileUsers: [String: [String]] = [:]
        for secret in named ?? [] {
            switch secret.place {
            case .credential(let name): credentialUsers[name, default: []].append(secret.user)
            case .file(let path): fileUsers[path, default: []].append(secret.user)
            }
        }
        func usedBy(_ credentials: [String], _ path: String?) -> [String]? {
            guard named != nil else { return nil }
            let users = credentials.flatMap { credentialUsers[$0] ?? [] } + (path.flatMap { fileUsers[$0] } ?? [])
            var seen: Set<String> = []
            return users.filter { seen.insert($0).inserted }
        }

        var listed: [ListedSecret] = []
        var (paths, credentials): (Set<String>, Set<String>) = ([], [])
        for name in stored.sorted() {
            let path = place.path(name)
            var names = [name]
            var state = ListedSecret.State.ready
            if let handedOver {
                names = handedOver.filter { $0.value == path }.keys.sorted()
                // It is where `secret add` puts it, so what is missing is the line alone.
                if handedOver[name] == nil, credentialUsers[name] != nil {
                    names.append(name)
                    state = .notHandedOver
                }
            }
            paths.insert(path)
            credentials.formUnion(names)
            listed.append(
                ListedSecret(
                    name: name, path: path, facts: facts(path), state: state, usedBy: usedBy(names, path)))
        }
        for (name, path) in (handedOver ?? [:]).sorted(by: { $0.key < $1.key }) where !credentials.contains(name) {
            credentials.insert(name)
            paths.insert(path)
            let found = facts(path)
            // What is no path is a credential of systemd's own.
            let isMissing = found == nil && path.hasPrefix("/")
            listed.append(
                ListedSecret(
                    name: name, path: path, facts: found, state: isMissing ? .missing : .ready,
                    usedBy: usedBy([name], path)))
        }
        for path in fileUsers.keys.sorted() where !paths.contains(path) {
            let found = facts(path)
            listed.append(
                ListedSecret(
                    name: path, path: path, facts: found, state: found == nil ? .missing : .ready,
                    usedBy: usedBy([], path)))
        }
        for name in credentialUsers.keys.sorted() where !credentials.contains(name) {
            listed.append(
                ListedSecret(name: name, path: nil, facts: nil, state: .missing, usedBy: usedBy([name], nil)))
        }
        return listed
    }
}
