/// A stored secret, or one that is named and missing; never its content.
package struct ListedSecret: Sendable, Hashable {
    package enum State: String, Sendable {
        case ready
        /// Nothing is where it should be.
        case missing
        /// The file is there, and the configuration names it as a credential, but no line of the unit hands it over.
        case notHandedOver = "not_handed_over"
        /// This user may not see the file, or a credential is named and no unit is known.
        case unknown
    }

    /// What the file system says of it.
    package struct Facts: Sendable, Hashable {
        /// Since the last change of its content, in seconds.
        package let ageSeconds: Int
        /// The permission bits; nil for what is not a regular file.
        package let mode: UInt32?
        package let isDirectory: Bool

        package init(ageSeconds: Int, mode: UInt32?, isDirectory: Bool = false) {
            self.ageSeconds = ageSeconds
            self.mode = mode
            self.isDirectory = isDirectory
        }
    }

    /// What is at a path.
    package enum Look: Sendable, Hashable {
        case found(Facts)
        case missing
        /// This user may not see it.
        case hidden

        fileprivate var facts: Facts? {
            if case .found(let facts) = self { return facts }
            return nil
        }

        fileprivate var state: State {
            switch self {
            case .found: .ready
            case .missing: .missing
            case .hidden: .unknown
            }
        }
    }

    /// Of the credential or the file; of a file elsewhere its path. What looks like a secret is masked, here and in
    /// the path and the users: it was written by mistake where its name belongs.
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
    /// In this order: the directory's files, credentials from elsewhere, files elsewhere, credentials that only the
    /// configuration names.
    /// - Parameters:
    ///   - stored: the names of files in the directory of `place`.
    ///   - handedOver: what the unit hands over; nil: there is no unit.
    ///   - named: nil: the configuration is not known.
    ///   - look: of a path, links followed.
    ///   - realPath: of a path, links followed: two paths of one file are one secret.
    package static func list(
        _ place: SecretLocation, stored: [String], handedOver: [UnitCredential]?, named: [NamedSecret]?,
        look: @escaping (_ path: String) -> ListedSecret.Look, realPath: @escaping (_ path: String) -> String
    ) -> [ListedSecret] {
        var listing = Listing(
            place: place, handedOver: handedOver, isKnown: named != nil, look: look, realPath: realPath)
        for secret in named ?? [] { listing.use(secret) }
        for name in stored.sorted() { listing.addStored(name) }
        for credential in (handedOver ?? []).sorted(by: { $0.name < $1.name }) { listing.addHandedOver(credential) }
        listing.addFiles()
        listing.addCredentials()
        return listing.listed.map(masked)
    }

    private static func masked(_ secret: ListedSecret) -> ListedSecret {
        func masked(_ text: String) -> String { SourceText.looksSecret(text) ? Quote.withheld : text }
        return ListedSecret(
            name: masked(secret.name), path: secret.path.map(masked), facts: secret.facts, state: secret.state,
            usedBy: secret.usedBy.map { $0.map(masked) })
    }
}

private struct Listing {
    let place: SecretLocation
    let handedOver: [UnitCredential]?
    /// Whether the configuration is.
    let isKnown: Bool
    let look: (String) -> ListedSecret.Look
    let realPath: (String) -> String

    private(set) var listed: [ListedSecret] = []
    private var credentialUsers: [String: [String]] = [:]
    /// By the real path.
    private var fileUsers: [String: [String]] = [:]
    /// As the configuration writes it, by the real path.
    private var writtenPaths: [String: String] = [:]
    /// Credentials and real paths that are listed.
    private var credentials: Set<String> = []
    private var paths: Set<String> = []

    init(
        place: SecretLocation, handedOver: [UnitCredential]?, isKnown: Bool,
        look: @escaping (String) -> ListedSecret.Look, realPath: @escaping (String) -> String
    ) {
        self.place = place
        self.handedOver = handedOver
        self.isKnown = isKnown
        self.look = look
        self.realPath = realPath
    }

    mutating func use(_ secret: NamedSecret) {
        switch secret.place {
        case .credential(let name): credentialUsers[name, default: []].append(secret.user)
        case .file(let path):
            let real = realPath(path)
            fileUsers[real, default: []].append(secret.user)
            if writtenPaths[real] == nil { writtenPaths[real] = path }
        }
    }

    /// A file of the directory.
    mutating func addStored(_ name: String) {
        let path = place.path(name)
        let found = look(path)
        var (names, state) = ([name], found.state)
        if let handedOver {
            names = handedOver.compactMap { credentialName($0, of: name, realPath(path)) }.sorted()
            // It is where `secret add` puts it, so what is missing is the line alone.
            if credentialUsers[name] != nil, !isHandedOver(name) {
                names.append(name)
                state = .notHandedOver
            }
        } else if credentialUsers[name] != nil {
            state = .unknown
        }
        add(name, path, found.facts, state, names)
    }

    /// The name by which a unit's credential hands over a file of the directory; nil: it does not.
    private func credentialName(_ credential: UnitCredential, of file: String, _ real: String) -> String? {
        guard let path = credential.path else { return nil }
        if realPath(path) == real { return credential.name }
        return realPath(path) == realPath(place.directory) ? "\(credential.name)_\(file)" : nil
    }

    /// What a line of the unit names, unless it is of the directory's files.
    mutating func addHandedOver(_ credential: UnitCredential) {
        // What is imported is only listed where it is named.
        guard !credential.isPrefix, !credentials.contains(credential.name) else { return }
        guard let path = credential.path else { return add(credential.name, nil, nil, .ready, [credential.name]) }
        // One with a specifier of systemd's (systemd.unit(5)) is not the path of a file yet.
        let found = path.contains("%") ? .hidden : look(path)
        if found.facts?.isDirectory == true {
            let mark = credential.name + "_"
            let members = credentialUsers.keys.filter { $0.hasPrefix(mark) && !credentials.contains($0) }.sorted()
            for member in members {
                let file = "\(path)/\(member.dropFirst(mark.count))"
                let inside = look(file)
                add(member, file, inside.facts, inside.state, [member])
            }
            guard members.isEmpty, realPath(path) != realPath(place.directory) else { return }
        }
        add(credential.name, path, found.facts, found.state, [credential.name])
    }

    /// Files that only the configuration names.
    mutating func addFiles() {
        for (real, path) in writtenPaths.sorted(by: { $0.value < $1.value }) where !paths.contains(real) {
            let found = look(path)
            add(path, path, found.facts, found.state, [])
        }
    }

    /// Credentials that only the configuration names.
    mutating func addCredentials() {
        for name in credentialUsers.keys.sorted() where !credentials.contains(name) {
            let state: ListedSecret.State =
                handedOver == nil ? .unknown : isHandedOver(name) ? .ready : .missing
            add(name, nil, nil, state, [name])
        }
    }

    private func isHandedOver(_ name: String) -> Bool {
        (handedOver ?? []).contains { one in one.hands(name) { look($0).facts?.isDirectory == true } }
    }

    /// - Parameter names: of the credentials that it is.
    private mutating func add(
        _ name: String, _ path: String?, _ facts: ListedSecret.Facts?, _ state: ListedSecret.State, _ names: [String]
    ) {
        let real = path.map(realPath)
        let users = names.flatMap { credentialUsers[$0] ?? [] } + (real.flatMap { fileUsers[$0] } ?? [])
        var seen: Set<String> = []
        credentials.formUnion(names)
        if let real { paths.insert(real) }
        listed.append(
            ListedSecret(
                name: name, path: path, facts: facts, state: state,
                usedBy: isKnown ? users.filter { seen.insert($0).inserted } : nil))
    }
}
