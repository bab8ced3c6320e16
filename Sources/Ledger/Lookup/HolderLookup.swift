package import Postgres
package import Vocabulary

/// The subject that the app's backend asks about.
package enum LookupSubject: Sendable, Hashable {
    case holder(Holder)
    /// An anonymous holder together with the user that it is now: what the person at that device sees.
    case install(String)
}

/// Scope of a look-up: one environment, and one source or all of them. Data of two environments is never shown together
/// (Domain.md, "Invariants": I4).
package struct LookupScope: Sendable, Hashable {
    package var environment: String
    /// Nil: all sources, whose purchases are kept apart.
    package var source: String?
    /// Nil: all apps. Of an install alone, and together with a source.
    package var app: String?

    package init(environment: String, source: String?, app: String? = nil) {
        self.environment = environment
        self.source = source
        self.app = app
    }
}

/// End of a page: the position of its last entry in an order that no later entry changes. Every value is a position.
package struct LookupCursor: Sendable, Hashable {
    package var number: Int64
    package var identifier: Identifier

    package init(number: Int64, identifier: Identifier) {
        self.number = number
        self.identifier = identifier
    }

    /// Before everything, in ascending order.
    static let least = LookupCursor(number: .min, identifier: Identifier(high: 0, low: 0))
    /// Before everything, in descending order.
    static let greatest = LookupCursor(number: .max, identifier: Identifier(high: .max, low: .max))
}

/// The text form of a cursor: 48 lower-case hex digits, opaque to clients.
extension LookupCursor {
    package var written: String {
        Identifier.hex(
            of: withUnsafeBytes(of: number.bigEndian) { Array($0) } + identifier.bytes)
    }

    package init?(written text: String) {
        let digits = text.utf8
        guard digits.count == 48, digits.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            let number = UInt64(text.prefix(16), radix: 16), let identifier = Identifier(hex: text.dropFirst(16))
        else { return nil }
        self.init(number: Int64(bitPattern: number), identifier: identifier)
    }
}

/// Some of the entries, in their order.
package struct LookupPage<Entry: Sendable>: Sendable {
    package let entries: [Entry]
    /// Cursor of the next page; nil: this was the last.
    package let next: LookupCursor?

    /// - Parameters:
    ///   - found: up to one more than `limit`.
    ///   - place: the position of an entry in the order.
    init(_ found: [Entry], limit: Int, place: (Entry) -> LookupCursor) {
        entries = Array(found.prefix(limit))
        next = found.count > limit ? entries.last.map(place) : nil
    }
}

/// The database could not answer. The description is for the journal and quotes no data.
package struct LookupFailure: Error, CustomStringConvertible {
    package let description: String

    init(_ error: DatabaseError) { description = "\(error)" }
}

/// Answers the app's backend from the ledger, with a few statements each, all of them served by an index.
package struct HolderLookup: Sendable {
    /// Entries of one page at most; what has no pages ends there.
    package static let entriesMax = 1_000

    private let pool: Pool
    let leeways: Leeways

    package init(pool: Pool, leeways: Leeways = .off) {
        self.pool = pool
        self.leeways = leeways
    }

    func read<Value: Sendable>(
        _ body: @Sendable (borrowing Session) throws(DatabaseError) -> Value
    ) async throws(LookupFailure) -> Value {
        do throws(DatabaseError) {
            return try await pool.withSession(body)
        } catch {
            throw LookupFailure(error)
        }
    }

    /// The same of a subject, with what all statements see of one moment: between two of them a login would take an
    /// install's purchases out of the one answer before they are in the other.
    func read<Value: Sendable>(
        of subject: LookupSubject, in scope: LookupScope,
        _ body: @Sendable (MeantHolders, borrowing Session) throws(DatabaseError) -> Value
    ) async throws(LookupFailure) -> Value {
        try await read { session throws(DatabaseError) in
            try PeriodTables.inOneSnapshot(on: session) { session throws(DatabaseError) in
                try body(try MeantHolders(subject, in: scope, on: session), session)
            }
        }
    }
}

/// The holders that a subject means. A named holder means itself everywhere; the identity of an install counts only
/// where the install is logged in as it.
struct MeantHolders: Sendable {
    private(set) var holders: [String] = []
    /// Nil: everywhere.
    private(set) var sources: [String?] = []
    private(set) var apps: [String?] = []

    init(_ subject: LookupSubject, in scope: LookupScope, on session: borrowing Session) throws(DatabaseError) {
        switch subject {
        case .holder(let holder): add(holder)
        case .install(let install):
            let only = scope.app.flatMap { app in scope.source.map { (source: $0, app: app) } }
            add(.anonymous(install), source: only?.source, app: only?.app)
            let identities = try session.run(HolderLookupStatements.currentIdentities, (install, scope.environment))
            for (source, app, user) in identities where only.map({ $0.source == source && $0.app == app }) ?? true {
                add(.user(user), source: source, app: app)
            }
        }
    }

    private mutating func add(_ holder: Holder, source: String? = nil, app: String? = nil) {
        holders.append(holder.storageKey)
        sources.append(source)
        apps.append(app)
    }
}

enum HolderLookupStatements {
    /// Sessions end by the database's clock: past its end the holder is anonymous again.
    static let currentIdentities = Statement<(String, String), (String, String, String)>(
        "lookup_current_identities",
        """
        SELECT source, app, user_id FROM holder_links
        WHERE anonymous_user_id = $1 AND environment = $2 AND user_id IS NOT NULL
          AND (until_ms IS NULL OR until_ms > (extract(epoch FROM now()) * 1000)::bigint)
        ORDER BY source, app LIMIT 1000
        """)
}

extension Holder {
    /// Reads a column of holders: only `storageKey` writes them.
    init(column: String) { self = Holder(storageKey: column) ?? .anonymous(column) }
}
