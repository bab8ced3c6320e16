internal import Vocabulary

// `[server]`, `[database]`, `[embedded]`, `[spool]`, `[journal]` and `[retention]`: the daemon itself.

extension Check {
    mutating func server(_ view: TableView?) -> Configuration.Server {
        guard let view else {
            return Configuration.Server(
                listen: .standard, apiListen: nil, maxBodyBytes: Limits.requestBodyBytesMax, tls: nil)
        }
        let listen = address("listen", of: view) ?? .standard
        let apiListen = address("api_listen", of: view)
        return Configuration.Server(
            listen: listen, apiListen: apiListen == listen ? nil : apiListen,
            maxBodyBytes: size("max_body", of: view, in: ConfigurationLimits.bodyBytes) ?? Limits.requestBodyBytesMax,
            tls: tls(of: view))
    }

    private mutating func address(_ key: String, of view: TableView) -> ListenAddress? {
        guard let text = string(key, of: view) else { return nil }
        do throws(ListenMistake) {
            return try ListenAddress(parsing: text.value)
        } catch {
            report.error(
                "`\(key)` must be \(view.expected(key)): \(Quote.value(text.value)) \(error.reason)", at: text.span)
            return nil
        }
    }

    private mutating func tls(of view: TableView) -> TLSFiles? {
        guard let entry = view["tls"] else { return nil }
        guard let inner = self.view(of: entry.node, Schema.tls) else {
            mismatch(entry, "tls", view)
            return nil
        }
        let certificate = path("certificate", of: inner)
        let key = path("key", of: inner)
        var isReadable = true
        if let certificate, !readable(certificate, "certificate") { isReadable = false }
        if let key, !readable(key, "key", isSecret: true) { isReadable = false }
        guard let certificate, let key else { return nil }
        let files = TLSFiles(certificate: certificate.value, key: key.value)
        if isReadable, let reason = libraries.certificate(files) {
            let text = "`tls` cannot be used: \(Quote.printable(reason))"
            // Read anew with a reload, which may bring the one that fits the other.
            let isOfUnit = [files.certificate, files.key].contains { $0.hasPrefix("/run/credentials/") }
            if secrets.purpose == .check, secrets.isOutsideUnit, isOfUnit {
                report.warning(text, at: entry.node.span)
            } else {
                report.error(text, at: entry.node.span)
            }
        }
        return files
    }

    /// Reads `[database]`. libpq interprets the url; only a password in clear text is noticed here.
    mutating func database(_ view: TableView?) -> Configuration.Database {
        let poolDefault = ConfigurationLimits.poolConnectionsDefault
        guard let view else {
            return Configuration.Database(
                url: nil, usesPrivateCluster: true, poolConnections: poolDefault,
                statementTimeout: Limits.statementTimeout, schema: nil, durability: .checked, pooling: .session,
                directURL: nil, namesDirectURL: false)
        }
        let url = connectionString("url", of: view)
        let isOwn = view["url"] != nil
        let durability = choice("durability", of: view, as: Configuration.Database.Durability.self)
        let pooling = choice("pooling", of: view, as: Configuration.Database.Pooling.self)
        let schema = schema(of: view)
        if let pooling, pooling.value == .transaction, isOwn, view["schema"] == nil {
            report.error(
                "`pooling = \"transaction\"` needs `schema`: other clients change the search path of the sessions that "
                    + "it leads to; \"public\" is that of a ledger which was made without the key, in most databases",
                at: pooling.span)
        }
        for key in ["schema", "durability", "pooling", "direct_url"] where !isOwn {
            guard let entry = view[key] else { continue }
            report.error(
                "`\(key)` goes with `url`: the private cluster holds nothing else and is the daemon's own",
                at: entry.node.span)
        }
        return Configuration.Database(
            url: url, usesPrivateCluster: !isOwn,
            poolConnections: integer("pool", of: view, in: ConfigurationLimits.poolConnections) ?? poolDefault,
            statementTimeout: duration("statement_timeout", of: view, in: ConfigurationLimits.statementTimeout)
                ?? Limits.statementTimeout,
            schema: schema, durability: durability?.value ?? .checked, pooling: pooling?.value ?? .session,
            directURL: connectionString("direct_url", of: view), namesDirectURL: view["direct_url"] != nil)
    }

    /// A connection string, in clear text or as a secret.
    private mutating func connectionString(_ key: String, of view: TableView) -> Secret? {
        guard let entry = view[key],
            let found = entry.node.entries == nil ? clearText(key, of: view) : secret(entry.node, key: key)
        else { return nil }
        let text = found.withBytes { String(decoding: $0, as: UTF8.self) }
        if let reason = libraries.connectionString(text) {
            report.error(
                isConnectionString(text)
                    ? "`\(key)` cannot be used: \(Quote.printable(reason))"
                    : "`\(key)` must begin with postgresql:// or be key = value pairs such as "
                        + "\"host=db dbname=posthouse\"", at: entry.node.span)
        }
        return found
    }

    /// Whether it has a form of libpq's, a URI or pairs (PostgreSQL 15, 34.1.1 "Connection Strings"). Of anything else
    /// libpq says no more than that a "=" is missing.
    private func isConnectionString(_ text: String) -> Bool {
        if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") { return true }
        let keyword = text.prefix { $0 != "=" }
        return keyword.endIndex != text.endIndex && !keyword.contains("://")
    }

    private mutating func clearText(_ key: String, of view: TableView) -> Secret? {
        guard let text = string(key, of: view) else { return nil }
        if holdsPassword(text.value) {
            report.warning(
                "`\(key)` holds a password in clear text; better \(Schema.expectedSecret), or libpq's password file",
                at: text.span)
        }
        return Secret(Array(text.value.utf8))
    }

    /// A name that needs no quotes: PostgreSQL folds one without quotes to lower case, so that "Posthouse" would be
    /// another schema than psql's Posthouse.
    private mutating func schema(of view: TableView) -> String? {
        guard let text = string("schema", of: view) else { return nil }
        let name = text.value
        if name.wholeMatch(of: /[a-z_](?:[a-z0-9_]*)/) == nil || name.utf8.count > ConfigurationLimits.schemaBytesMax {
            report.error(
                "`schema` must be \(view.expected("schema")): lower-case letters, digits and _, the first no digit, "
                    + "\(ConfigurationLimits.schemaBytesMax) at most, not \(Quote.value(name))", at: text.span)
            return nil
        }
        if name.hasPrefix("pg_") || name == "information_schema" {
            report.error(
                "`schema` must not be \(Quote.value(name)): PostgreSQL keeps such names to itself", at: text.span)
            return nil
        }
        return name
    }

    /// `scheme://user:password@…` or `password=…` (PostgreSQL 15, 34.1.1 "Connection Strings"). A `?` before the first
    /// `@` belongs to the password.
    private func holdsPassword(_ url: String) -> Bool {
        let lowered = url.lowercased()
        if lowered.firstRange(of: /(^|[^a-z])password\s*=\s*[^\s&]/) != nil { return true }
        guard let mark = lowered.firstRange(of: "://") else { return false }
        let authority = lowered[mark.upperBound...].prefix { $0 != "/" }
        guard let first = authority.firstIndex(of: "@") else { return false }
        let place = authority[first...].prefix { $0 != "?" }
        return authority[..<(place.lastIndex(of: "@") ?? first)].contains(":")
    }

    mutating func embedded(_ view: TableView?) -> Configuration.Embedded {
        Configuration.Embedded(directory: view.flatMap { path("directory", of: $0) }?.value ?? stateDirectory)
    }

    mutating func spool(_ view: TableView?) -> Configuration.Spool {
        Configuration.Spool(
            directory: view.flatMap { path("directory", of: $0) }?.value ?? stateDirectory + "/spool",
            bytesMax: view.flatMap { size("max", of: $0, in: ConfigurationLimits.spoolBytes) } ?? Limits.spoolBytesMax)
    }

    private var stateDirectory: String {
        StateDirectory.resolve(environment: secrets.reader.environment, isRoot: isRoot, owns: secrets.reader.owns)
    }

    mutating func journal(_ view: TableView?) -> Configuration.Journal {
        let detail = view.flatMap { integer("detail_limit", of: $0, in: ConfigurationLimits.detailPerSecond) }
        let format = view.flatMap { choice("format", of: $0, as: LogFormat.self)?.value }
        return Configuration.Journal(detailPerSecond: detail ?? Limits.journalDetailPerSecond, format: format)
    }

    mutating func retention(_ view: TableView?) -> Retention {
        let kept = ConfigurationLimits.attemptsKept
        let attempts = view.flatMap { duration("attempts", of: $0, in: kept) }
        let events = view.flatMap { duration("events", of: $0, in: kept) } ?? ConfigurationLimits.eventsKeptDefault
        let duplicates =
            view.flatMap { duration("duplicates", of: $0, in: ConfigurationLimits.duplicatesKept) }
            ?? ConfigurationLimits.duplicatesKeptDefault
        if events < duplicates, let view, let span = (view["events"] ?? view["duplicates"])?.node.span {
            report.error(
                "`events` (\(DurationText.write(events))) must be at least `duplicates` "
                    + "(\(DurationText.write(duplicates))): an event keeps its own event key", at: span)
        }
        return Retention(
            attempts: attempts ?? ConfigurationLimits.attemptsKeptDefault, events: events, duplicates: duplicates)
    }
}
