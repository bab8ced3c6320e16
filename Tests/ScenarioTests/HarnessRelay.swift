import Foundation
import TestSupport
import Vocabulary

/// The real binary, with a configuration of its own, in a directory of its own.
///
/// Ended and cleaned up when it is let go, so a test holds it to its end (`defer { relay.end() }` says so plainly).
final class Relay: Sendable {
    /// One `[[integration]]`. `settings` are TOML values by key; the defaults suit a receiver in this process.
    struct Integration: Sendable {
        var name: String
        var url: String
        var secrets: [String]
        var settings: [String: String]

        /// - Parameter settings: beside or in place of `events = ["*"]` and `allow_private = true`; an empty value
        ///   takes the key away.
        init(_ name: String, _ receiver: Receiver, _ settings: [String: String] = [:]) {
            self.init(name, url: receiver.url, secrets: receiver.secrets, settings)
        }

        init(_ name: String, url: String, secrets: [String], _ settings: [String: String] = [:]) {
            self.name = name
            self.url = url
            self.secrets = secrets
            self.settings = ["events": #"["*"]"#, "allow_private": "true"].merging(settings) { $1 }
        }
    }

    /// One `[[source]]`.
    struct SourceTable: Sendable {
        var name = "purchasely"
        /// Nil: as its name where that is a kind, else purchasely.
        var kind: String?
        var secrets = ["source-secret"]
        var settings: [String: String] = [:]

        fileprivate var kindName: String {
            kind ?? (SourceKind(rawValue: name) == nil ? SourceKind.purchasely.rawValue : name)
        }
    }

    enum Storage: Sendable {
        /// A database of its own on a durable cluster that the whole test process shares, with a ledger that nobody
        /// has served yet. All of them have one `LedgerMark`.
        case shared
        /// The same without a ledger.
        case fresh
        /// A libpq connection string.
        case given(String)
        /// `[database]` left out.
        case privateCluster
    }

    let directory: ScratchDirectory
    let configuration: String
    let port: UInt16
    private let storage: Storage
    /// `[database] pool`.
    private let connections: Int?
    /// Further lines of `[database]`: TOML values by key.
    private let databaseSettings: [String: String]
    private let journal: String
    private let process = Monitor<ChildProcess?>(nil)
    private static let durableCluster = Result { try TestCluster(durable: true) }
    /// What the databases of `shared` are copies of: a copy costs far less than a migration. No daemon has been there,
    /// which would leave rows.
    private static let template = Result<String, any Error> {
        let relay = try Relay([], storage: .fresh)
        defer { relay.end() }
        let migrated = try relay.command("migrate", "--config", relay.configuration)
        guard migrated.end == .exited(0) else { throw HarnessFailure("posthouse migrate: \(migrated.errors)") }
        return try relay.database.value("SELECT current_database()")
    }

    /// Writes the configuration; `start` starts the daemon.
    /// - Parameter journal: empty for versions that know no format of it, nor a `leeway`, and for the usual ones.
    init(
        _ integrations: [Integration], sources: [SourceTable] = [SourceTable()], storage: Storage = .shared,
        settings: String = "", connections: Int? = nil, databaseSettings: [String: String] = [:],
        journal: String = "[journal]\nformat = \"logfmt\""
    ) throws {
        self.connections = connections
        self.databaseSettings = databaseSettings
        self.journal = journal
        directory = try ScratchDirectory()
        port = try Socket.freePort()
        switch storage {
        case .shared:
            self.storage = .given(try Self.durableCluster.get().createDatabase(copyOf: Self.template.get()))
        case .fresh: self.storage = .given(try Self.durableCluster.get().createDatabase())
        default: self.storage = storage
        }
        configuration = directory.path + "/posthouse.toml"
        try configure(integrations, sources: sources, settings: settings)
    }

    /// Writes the configuration anew; a daemon that runs reads it when it is told to.
    func configure(
        _ integrations: [Integration], sources: [SourceTable] = [SourceTable()], settings: String = ""
    ) throws {
        var lines = ["[server]", "listen = \"127.0.0.1:\(port)\"", settings]
        if case .given(let text) = storage {
            try directory.write("database-url", text + "\n")
            lines += ["[database]", "url = { file = \"\(directory.path)/database-url\" }"]
            if let connections { lines.append("pool = \(connections)") }
            lines += databaseSettings.map { "\($0.key) = \($0.value)" }
        } else {
            lines += ["[embedded]", "directory = \"\(directory.path)/state\""]
        }
        lines.append(journal)
        lines.append(try Self.apiTokenTable(in: directory))
        for source in sources {
            lines += ["[[source]]", "name = \"\(source.name)\"", "kind = \"\(source.kindName)\""]
            if !source.secrets.isEmpty {
                lines.append(try Self.secrets(source.secrets, of: source.name, in: directory))
            }
            // Most webhooks here are older than a period: only what a test states ends their access.
            let settings = (journal.isEmpty ? [:] : ["leeway": "\"off\""]).merging(source.settings) { $1 }
            lines += settings.map { "\($0.key) = \($0.value)" }
        }
        for integration in integrations {
            lines += ["[[integration]]", "name = \"\(integration.name)\"", "url = \"\(integration.url)\""]
            lines.append(try Self.secrets(integration.secrets, of: integration.name, in: directory))
            lines += integration.settings.filter { !$0.value.isEmpty }.map { "\($0.key) = \($0.value)" }
        }
        try directory.write("posthouse.toml", lines.joined(separator: "\n") + "\n")
    }

    /// Names each secret of the configuration as a credential, by the name of its file.
    func nameCredentials() throws {
        let text = try String(contentsOfFile: configuration, encoding: .utf8)
        try directory.write(
            "posthouse.toml",
            text.replacing(#/\{ file = "[^"]*\/([^"\/]+)" \}/#) { match in "{ credential = \"\(match.1)\" }" })
    }

    /// SIGHUP; the line that says what became of it.
    func reload() throws -> String {
        guard let child else { throw HarnessFailure("no daemon runs") }
        let reported = child.errors.count(where: Self.isOfReload)
        child.signal(SIGHUP)
        guard eventually({ child.errors.count(where: Self.isOfReload) > reported }) else {
            throw HarnessFailure("SIGHUP was not answered:\n\(child.errors.joined(separator: "\n"))")
        }
        return child.errors.last(where: Self.isOfReload) ?? ""
    }

    private static func isOfReload(_ line: String) -> Bool { line.contains("the new configuration ") }

    /// A relay that serves.
    static func running(
        _ integrations: [Integration], sources: [SourceTable] = [SourceTable()], storage: Storage = .shared,
        settings: String = "", connections: Int? = nil
    ) throws -> Relay {
        let relay = try Relay(
            integrations, sources: sources, storage: storage, settings: settings, connections: connections)
        try relay.start()
        return relay
    }

    deinit { end() }

    private static func secrets(_ secrets: [String], of name: String, in directory: ScratchDirectory) throws -> String {
        let files = try secrets.enumerated().map { number, secret in
            "{ file = \"\(try directory.write("\(name)-\(number).secret", secret + "\n"))\" }"
        }
        return files.count == 1 ? "secret = \(files[0])" : "secrets = [\(files.joined(separator: ", "))]"
    }

    // MARK: The daemon

    /// The built executable: named by POSTHOUSE_BINARY, else beside the test bundle.
    static let binary = Result<String, any Error> {
        let named = ProcessInfo.processInfo.environment["POSTHOUSE_BINARY"]
        let bundle = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let path = named ?? (bundle as NSString).deletingLastPathComponent + "/posthouse"
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw HarnessFailure(
                "there is no executable \(path): run swift build first, or name one with POSTHOUSE_BINARY")
        }
        return path
    }

    /// Starts the daemon and waits until it is ready.
    /// - Parameter binary: of another version; nil: the one that was built.
    func start(within seconds: Double = 180, binary: String? = nil) throws {
        let child = try launch(binary: binary)
        let client = HTTPClient(port: port)
        let deadline = Date(timeIntervalSinceNow: seconds)
        while true {
            if child.waitForEnd(0.02) != nil {
                throw HarnessFailure("posthouse serve ended at its start:\n\(child.errors.joined(separator: "\n"))")
            }
            if let answer = try? client.request("GET", "/readyz"), answer.status == 200 { return }
            guard Date() < deadline else {
                let lines = child.errors.joined(separator: "\n")
                kill()
                throw HarnessFailure("posthouse serve was not ready after \(seconds) s:\n\(lines)")
            }
        }
    }

    /// Starts the daemon without waiting for it.
    /// - Parameter wrapper: a program and its arguments that becomes the daemon, such as prlimit(1).
    @discardableResult
    func launch(
        by wrapper: [String] = [], environment: [String: String] = [:], binary: String? = nil
    ) throws -> ChildProcess {
        guard !(process.read { $0?.isRunning ?? false }) else { throw HarnessFailure("the daemon runs already") }
        let child = try ChildProcess(
            wrapper + [try binary ?? Self.binary.get(), "serve", "--config", configuration],
            // Of its own: there lies the lock by which it takes over from its predecessor.
            environment: Self.environment.merging(["STATE_DIRECTORY": directory.path]) { $1 }
                .merging(environment) { $1 })
        process.change { $0 = child }
        return child
    }

    /// A crash writes no backtrace: that can take minutes. The journal's socket is not the daemon's standard error.
    static let environment = ["SWIFT_BACKTRACE": "enable=no", "JOURNAL_STREAM": "", "NOTIFY_SOCKET": ""]

    var child: ChildProcess? { process.read { $0 } }
    var processIdentifier: pid_t? { child.flatMap { $0.isRunning ? $0.identifier : nil } }

    /// What the daemon that was started last said on standard error.
    var lines: [String] { child?.errors ?? [] }

    /// Lines of webhooks answered 503 for a reason that no slow machine gives.
    var refusalsByFault: [String] {
        let faults = ["this daemon is stopping", "the database and the program disagree"]
        // For want of time, of room, or of a session.
        let slow = ["55P03", "57014", "57P0", "25P0", "53"]
        return lines.filter { line in
            faults.contains { line.contains("with 503: \($0)") }
                || line.contains("with 503: the database refused") && !slow.contains { line.contains(": \($0)") }
        }
    }

    /// Waits for a line that holds all of `parts`; nil: none came.
    @discardableResult
    func waitForLine(_ parts: String..., within seconds: Double = 180) -> String? {
        child?.waitForError(seconds) { line in parts.allSatisfy { line.contains($0) } }
    }

    /// SIGTERM, then its end; nil: it still runs after `seconds` (and is killed).
    @discardableResult
    func stop(within seconds: Double = 180) -> ChildProcess.End? {
        guard let child else { return nil }
        child.signal(SIGTERM)
        if let end = child.waitForEnd(seconds) { return end }
        kill()
        return nil
    }

    /// SIGKILL, then its end.
    func kill() {
        child?.signal(SIGKILL)
        _ = child?.waitForEnd(180)
    }

    /// Ends the daemon (by SIGTERM unless it is dead already), starts it again with the same configuration and port.
    func restart() throws {
        if child?.isRunning ?? false, stop() == nil { throw HarnessFailure("the daemon did not end on SIGTERM") }
        try start()
    }

    /// Ends the daemon and removes its directory; its database goes with the cluster.
    func end() {
        kill()
        directory.remove()
    }

    // MARK: What it is asked

    func source(_ name: String = "purchasely", secret: String = "source-secret") -> Source {
        Source(name: name, secret: secret, port: port)
    }

    func get(_ path: String) throws -> HTTPMessage { try HTTPClient(port: port).request("GET", path) }

    /// A webhook with whatever headers prove its source; again while it is answered 503 (`insisting`).
    @discardableResult
    func post(_ source: String, _ headers: [(String, String)], _ body: String) throws -> Int {
        try insisting { try request(source, headers, body) }.status
    }

    /// Where 503 is an answer like the others.
    @discardableResult
    func postOnce(_ source: String, _ headers: [(String, String)], _ body: String) throws -> Int {
        try request(source, headers, body).status
    }

    private func request(_ source: String, _ headers: [(String, String)], _ body: String) throws -> HTTPMessage {
        try HTTPClient(port: port).request("POST", "/ingest/\(source)", headers: headers, body: Array(body.utf8))
    }

    /// Asks the API with a token that may do everything; again while it is answered 503 (`insisting`).
    func ask(
        _ method: String, _ path: String, _ body: String = "", token: String? = Relay.apiToken
    ) throws -> HTTPMessage {
        try insisting { try askOnce(method, path, body, token: token) }
    }

    /// Where 503 is an answer like the others.
    func askOnce(
        _ method: String, _ path: String, _ body: String = "", token: String? = Relay.apiToken
    ) throws -> HTTPMessage {
        let headers = token.map { [("authorization", "Bearer \($0)")] } ?? []
        return try HTTPClient(port: port).request(method, path, headers: headers, body: Array(body.utf8))
    }

    static let apiToken = "token-of-the-scenarios-0123456789"

    /// `[[api_token]]` with that token, for `settings` behind other tables.
    static func apiTokenTable(in directory: ScratchDirectory) throws -> String {
        let file = try directory.write("api.token", apiToken + "\n")
        return "[[api_token]]\nname = \"all\"\ntoken = { file = \"\(file)\" }\nscopes = [\"read\", \"write\"]\n"
    }

    /// The database that the daemon uses; of a private cluster only while it runs.
    var database: Database {
        get throws {
            if case .given(let text) = storage { return Database(connectionString: text) }
            return try Database(privateClusterIn: directory.path + "/state/cluster")
        }
    }
}
