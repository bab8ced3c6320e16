import CLibpq

/// How to reach the database, and how long to wait for it. Made from a libpq connection string (URI or keywords,
/// several hosts allowed) that libpq itself takes apart. Printing it shows no password.
package struct ConnectionSettings: Sendable {
    /// One host's worth of keywords for PQconnectStartParams.
    struct Candidate: Sendable {
        /// For messages: host and port, no more.
        let name: String
        let keywords: [(key: String, value: String)]
    }

    /// In the order in which they are tried. One for each host: libpq's asynchronous connect would spend the whole
    /// time-out on the first host that does not answer.
    let candidates: [Candidate]
    /// For one host.
    package let connectTimeout: Duration
    /// `statement_timeout` of the session; zero: none.
    package let statementTimeout: Duration
    /// Our own deadline for each answer of the server: the statement time-out and the margin.
    package let statementDeadline: Duration
    private let shown: String

    /// - Parameters:
    ///   - connectTimeout: for each host; looking up its name is the resolver's and comes on top.
    ///   - statementTimeout: the server's limit for each statement, in whole milliseconds; zero switches it off.
    ///   - deadlineMargin: how long after that limit we stop waiting and close the connection. `statement_timeout` does
    ///     not bound a COMMIT that waits for a standby, nor a network that is gone.
    package init(
        _ connectionString: String, connectTimeout: Duration, statementTimeout: Duration, deadlineMargin: Duration
    ) throws(ConnectionStringError) {
        if let mistake = ConnectionStringError.maskedPassword(in: connectionString) { throw mistake }
        let options = try Self.parse(connectionString)
        candidates = try Self.candidates(options)
        shown = options.filter { ["host", "hostaddr", "port", "dbname", "user", "sslmode"].contains($0.key) }
            .map { "\($0.key)=\($0.value)" }.joined(separator: " ")
        self.connectTimeout = connectTimeout
        self.statementTimeout = statementTimeout
        statementDeadline = statementTimeout + deadlineMargin
    }

    private static func parse(_ text: String) throws(ConnectionStringError) -> [(key: String, value: String)] {
        var message: UnsafeMutablePointer<CChar>?
        guard let parsed = PQconninfoParse(text, &message) else {
            defer { PQfreemem(message) }
            // libpq quotes what it stumbles over, and that can be the password.
            throw ConnectionStringError(
                reason: message.map { oneLine(withoutQuotations(String(cString: $0))) } ?? "out of memory")
        }
        defer { PQconninfoFree(parsed) }
        var options: [(key: String, value: String)] = []
        var option = parsed
        while let key = option.pointee.keyword {
            if let value = option.pointee.val { options.append((String(cString: key), String(cString: value))) }
            option += 1
        }
        return options
    }

    /// Splits the lists of hosts, addresses and ports (libpq, "Specifying Multiple Hosts"): one port may stand for all.
    private static func candidates(_ options: [(key: String, value: String)]) throws(ConnectionStringError)
        -> [Candidate]
    {
        func list(_ key: String) -> [String] {
            guard let value = options.last(where: { $0.key == key })?.value, !value.isEmpty else { return [] }
            return value.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let hosts = list("host")
        let addresses = list("hostaddr")
        let ports = list("port")
        let count = max(hosts.count, addresses.count, 1)
        guard hosts.isEmpty || addresses.isEmpty || hosts.count == addresses.count else {
            throw ConnectionStringError(reason: "host and hostaddr list different numbers of hosts")
        }
        guard ports.count <= 1 || ports.count == count else {
            throw ConnectionStringError(reason: "port lists \(ports.count) ports for \(count) hosts")
        }
        guard ports.allSatisfy({ $0.isEmpty || UInt16($0) != nil }) else {
            throw ConnectionStringError(reason: "port is no number between 1 and 65535")
        }
        var shared = options.filter { !["host", "hostaddr", "port"].contains($0.key) }
        shared += defaults(besides: options, hostCount: count)
        return (0..<count).map { index in
            var own: [(key: String, value: String)] = []
            if !hosts.isEmpty { own.append(("host", hosts[index])) }
            if !addresses.isEmpty { own.append(("hostaddr", addresses[index])) }
            if !ports.isEmpty { own.append(("port", ports.count == 1 ? ports[0] : ports[index])) }
            let name = own.map(\.value).filter { !$0.isEmpty }.joined(separator: ":")
            return Candidate(name: name.isEmpty ? "the default host" : name, keywords: own + shared)
        }
    }

    /// What we set where the connection string is silent, and (`client_encoding`) even where it is not.
    private static func defaults(
        besides options: [(key: String, value: String)], hostCount: Int
    ) -> [(key: String, value: String)] {
        var defaults = [
            ("fallback_application_name", "posthouse"),
            // A peer that vanished is noticed within a minute even where nothing is being waited for.
            ("keepalives_idle", "30"), ("keepalives_interval", "10"), ("keepalives_count", "3"),
            // One that takes nothing of what was sent to it, within so many milliseconds.
            ("tcp_user_timeout", "10000"),
        ]
        // Several hosts are there for failover: a standby that answers first must not be taken for the primary.
        if hostCount > 1 { defaults.append(("target_session_attrs", "read-write")) }
        let given = Set(options.map(\.key))
        // Text is decoded as UTF-8 (Scalars.swift); libpq lets the last of equal keywords win.
        return defaults.filter { !given.contains($0.0) }.map { ($0.0, $0.1) } + [("client_encoding", "UTF8")]
    }
}

extension ConnectionSettings: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { shown.isEmpty ? "the default database" : shown }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

/// The connection string cannot be read. The reason quotes nothing of it.
package struct ConnectionStringError: Error, Hashable, CustomStringConvertible {
    package let reason: String

    package var description: String { "the database's connection string cannot be used: \(reason)" }

    /// A password with an unescaped `@` or `/` would make its tail a host or database name, which messages do show.
    static func maskedPassword(in text: String) -> ConnectionStringError? {
        guard let scheme = ["postgresql://", "postgres://"].first(where: text.hasPrefix) else { return nil }
        let rest = text.dropFirst(scheme.count).prefix { $0 != "?" }
        let authority = rest.prefix { $0 != "/" }
        guard rest.count(where: { $0 == "@" }) > 1 || (rest.contains("@") && !authority.contains("@")) else {
            return nil
        }
        return ConnectionStringError(
            reason: "the user or password holds an unescaped character: write @ as %40, / as %2F, : as %3A")
    }
}

/// A message of libpq, whose lines are for a terminal, as one line.
func oneLine(_ text: String) -> String {
    text.split(whereSeparator: \.isNewline).map { line in
        line.drop { $0 == " " || $0 == "\t" }
    }.joined(separator: "; ")
}
