/// What a configuration refers to outside its own file, as far as the file could be read. Each is named once, in the
/// order of the file.
package struct OutsideReferences: Sendable, Hashable {
    /// Names of systemd credentials. One that looks like a secret itself is left out.
    package private(set) var credentials: [String] = []
    /// Those of them that root could not read because it is outside the unit: no diagnostic names them.
    package private(set) var unreadCredentials: [String] = []
    /// Paths of secrets, of authorities, and of certificates with their keys.
    package private(set) var files: [String] = []

    package init(credentials: [String] = [], unreadCredentials: [String] = [], files: [String] = []) {
        self.credentials = credentials
        self.unreadCredentials = unreadCredentials
        self.files = files
    }

    mutating func add(credential name: String) { Self.add(name, to: &credentials) }

    mutating func add(unreadCredential name: String) { Self.add(name, to: &unreadCredentials) }

    mutating func add(file path: String) { Self.add(path, to: &files) }

    private static func add(_ text: String, to list: inout [String]) {
        guard !SourceText.looksSecret(text), !list.contains(text) else { return }
        list.append(text)
    }
}
