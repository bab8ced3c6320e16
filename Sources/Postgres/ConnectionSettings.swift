import CLibpq

/// Address of the database and the time-outs of a connection. Made from a libpq connection string (URI or keywords,
/// several hosts allowed), which libpq itself parses. Printing it shows no password.
package struct ConnectionSettings: Sendable {
    /// The keywords of one host for PQconnectStartParams.
    struct Candidate: Sendable {
        /// For messages: only host and port.
        let name: String
        let keywords: [(key: String, value: String)]
    }

    /// One for each host, in the order in which they are tried. Separate, because libpq's asynchronous connect would
    /// spend the whole time-out on the first host that does not answer.
    let candidates: [Candidate]
    /// Limit for one host.
    package let connectTimeout: Duration
    /// `statement_timeout` of the session; zero: none.
    package let statementTimeout: Duration
    /// Posthouse's own deadline for each answer of the server: the statement time-out plus the margin.
    package let statementDeadline: Duration
    /// `idle_in_transaction_session_timeout` of the session.
    package let idleTransactionTimeout: Duration
    /// `lock_timeout` of the transactions that are planned once; nil: as the role's own setting has it.
    let lockWait: Duration?
    /// The schema of all tables; nil: as the role's own `search_path` has it.
    package let schema: String?
    /// `SchemaName.lockSalt` of it.
    let lockSalt: Int64
    /// Whose the server sessions are that the connection leads to.
    package let pooling: Pooling
    private let shown: String

    /// - Parameters:
    ///   - connectTimeout: limit for each host; the resolver's look-up of its name comes on top.
    ///   - statementTimeout: the server's limit for each statement, in whole milliseconds; zero switches it off.
    ///   - deadlineMargin: how long after that limit Posthouse stops waiting and closes the connection.
    ///     `statement_timeout` limits neither a COMMIT that waits for a standby nor a network failure.
    ///   - idleTransactionTimeout: how long a transaction may stand open between two statements; nil:
    ///     `statementDeadline`.
    ///   - lockWait: how long a transaction that is planned once waits for a lock (`Planning.onceByIndex`).
    ///   - schema: the only one in the session's `search_path`; nil leaves the role's. It need not exist yet.
    ///   - pooling: with `.transaction` name a schema: under the role's search path the temporary tables of another
    ///     client come before it.
    package init(
        _ connectionString: String, connectTimeout: Duration, statementTimeout: Duration, deadlineMargin: Duration,
        idleTransactionTimeout: Duration? = nil, lockWait: Duration? = nil, schema: String? = nil,
        pooling: Pooling = .session
    ) throws(ConnectionStringError) {
        if let mistake = ConnectionStringError.maskedPassword(in: connectionString) { throw mistake }
        let options = try Self.parse(connectionString)
        candidates = try Self.candidates(options)
        let named = options.filter { ["host", "hostaddr", "port", "dbname", "user", "sslmode"].contains($0.key) }
            .map { "\($0.key)=\($0.value)" }
        shown = (named + (schema.map { ["schema=\($0)"] } ?? [])).joined(separator: " ")
        self.schema = schema
        lockSalt = SchemaName.lockSalt(schema)
        self.pooling = pooling
        self.connectTimeout = connectTimeout
        self.statementTimeout = statementTimeout
        statementDeadline = statementTimeout + deadlineMargin
        self.idleTransactionTimeout = idleTransactionTimeout ?? statementDeadline
        self.lockWait = lockWait
    }

    private static func parse(_ text: String) throws(ConnectionStringError) -> [(key: String, value: String)] {
        var message: UnsafeMutablePointer<CChar>?
        guard let parsed = PQconninfoParse(text, &message) else {
            defer { PQfreemem(message) }
            // libpq quotes the part that it cannot parse, which may be the password.
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

    /// Splits the lists of hosts, addresses and ports (libpq, "Specifying Multiple Hosts"); a single port applies to
    /// all.
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
            throw ConnectionStringError(reason: "port is not a number between 1 and 65535")
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

    /// Options set where the connection string does not set them, and `client_encoding`, which is always set.
    private static func defaults(
        besides options: [(key: String, value: String)], hostCount: Int
    ) -> [(key: String, value: String)] {
        var defaults: [(key: String, value: String)] = [
            ("fallback_application_name", "posthouse"),
            // Detects a vanished peer within a minute even while nothing is waited for.
            ("keepalives_idle", "30"), ("keepalives_interval", "10"), ("keepalives_count", "3"),
            // Detects a peer that has acknowledged nothing of the data sent to it for this many milliseconds.
            ("tcp_user_timeout", "10000"),
        ]
        // Several hosts are for failover: a standby that answers first must not be used as the primary.
        if hostCount > 1 { defaults.append(("target_session_attrs", "read-write")) }
        let given = Set(options.map(\.key))
        // Text is decoded as UTF-8 (Scalars.swift); libpq uses the last of several equal keywords.
        return defaults.filter { !given.contains($0.key) } + [("client_encoding", "UTF8")]
    }
}

extension ConnectionSettings {
    /// Whether both say the same of where a connection leads, and as whom it is opened.
    package func leadsLike(_ other: ConnectionSettings) -> Bool {
        schema == other.schema
            && candidates.elementsEqual(other.candidates) { one, other in
                one.keywords.elementsEqual(other.keywords) { $0.key == $1.key && $0.value == $1.value }
            }
    }

    /// How long a connection may take to open: each host is given its time, and the last one some more for its answer.
    package var openingTimeout: Duration { connectTimeout * (candidates.count + 1) }

    /// The role that a connection is opened as; nil: libpq's default.
    package var user: String? { candidates.first?.keywords.last(where: { $0.key == "user" })?.value }
}

extension ConnectionSettings: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { shown.isEmpty ? "the default database" : shown }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

/// A connection string that cannot be read. The reason quotes nothing of it.
package struct ConnectionStringError: Error, Hashable, CustomStringConvertible {
    package let reason: String

    package var description: String { "the database's connection string cannot be used: \(reason)" }

    /// Detects a password with an unescaped `@` or `/`: its tail would become a host or database name, which messages
    /// show. To libpq the user and password end at the first `@` before any `/`, and may hold a `?`; without such an
    /// `@` there are none. In what follows them an `@` has no meaning before the `?` of the parameters.
    static func maskedPassword(in text: String) -> ConnectionStringError? {
        guard let scheme = ["postgresql://", "postgres://"].first(where: text.hasPrefix) else { return nil }
        let (at, slash, mark) = (UInt8(ascii: "@"), UInt8(ascii: "/"), UInt8(ascii: "?"))
        let rest = text.utf8.dropFirst(scheme.utf8.count)
        let user = rest.prefix { $0 != at && $0 != slash }
        let hasUser = rest.dropFirst(user.count).first == at
        let place = hasUser ? rest.dropFirst(user.count + 1) : rest
        guard place.prefix(while: { $0 != mark }).contains(at) else { return nil }
        return ConnectionStringError(
            reason: "the user or password holds an unescaped character: write @ as %40, / as %2F, : as %3A")
    }
}

/// Joins the lines of a libpq message, which are meant for a terminal, into one.
func oneLine(_ text: String) -> String {
    text.split(whereSeparator: \.isNewline).map { line in
        line.drop { $0 == " " || $0 == "\t" }
    }.joined(separator: "; ")
}
