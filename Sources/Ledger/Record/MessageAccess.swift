import JSONText
import Postgres
import Vocabulary

/// What holders have after the writes of a transaction, for the messages to integrations with `include = ["access"]`
/// (posthouse-messages(7), "Access"): what the API answers of them in the source and the environment of the message.
///
/// The lists are those of one moment, and they are ordered by `version`. A holder is locked before its list is read,
/// and until the end of the transaction; reading and the version come in later statements than the lock, so both see
/// everything that the former owner of the lock has committed. So of two lists of a holder the one with the higher
/// version lacks nothing that the other has: its transaction had the lock later, and drew from a sequence that gives no
/// number twice and none below one that was drawn before. Row ids would not do: a batch draws those ahead.
///
/// These locks come behind all others of a transaction that takes them, and ascending. Who has one waits for nobody who
/// waits for one, so that no circle arises with batches that meet at purchases (Architecture.md, "Locks").
struct MessageAccess {
    struct Subject: Hashable {
        let source: String
        let environment: String
        let holder: Holder
    }

    /// One purchase of a subject.
    struct SubjectPurchase {
        /// Position of the subject in the arrays, from 1.
        let place: Int
        let product: String?
        let plan: String?
        let isActive: Bool
        let until: Timestamp?
        let isOverdue: Bool
        let app: String
        let store: String
        let purchase: String
        let kind: String
    }

    /// What is written of each subject, a JSON object.
    private var texts: [Subject: [UInt8]] = [:]

    /// Reads what the subjects have, in a transaction that has enqueued everything that it writes of access. Without
    /// subjects nothing is locked or read.
    /// - Parameter leeways: whether access is active is judged by these and by the start of the transaction.
    init(
        of subjects: some Sequence<Subject>, leeways: Leeways, on session: borrowing Session
    ) throws(DatabaseError) {
        let subjects = Array(Set(subjects))
        if subjects.isEmpty { return }
        try Self.lock(subjects, on: session)
        let drawn = try session.enqueueQuery(MessageAccessStatements.version, ())
        let parameters = (
            subjects.map(\.source), subjects.map(\.environment), subjects.map(\.holder.storageKey), leeways.names,
            leeways.milliseconds, Int32(Limits.accessCandidatesMax), Int32(Limits.accessPurchasesMax + 1)
        )
        let read = try session.enqueueQuery(MessageAccessStatements.held, parameters)
        guard let version = try session.answer(to: drawn).first else {
            throw .protocolViolation(reason: "drawing a version of access came to nothing")
        }
        let held = Dictionary(grouping: try session.answer(to: read), by: \.place)
        for (index, subject) in subjects.enumerated() {
            texts[subject] = Self.text(of: subject.holder, version, held[index + 1] ?? [])
        }
    }

    /// `data.access` of a message with these subjects, in their order: a JSON array.
    func text(of subjects: [Subject]) -> [UInt8] {
        var json = JSONWriter()
        json.array { json in
            for subject in subjects { json.raw(texts[subject] ?? []) }
        }
        return json.bytes
    }

    /// Key of the advisory lock of all holders at once: "access" as bytes.
    private static let lockKey: Int64 = 0x6163_6365_7373

    /// Locks each subject; of too many for PostgreSQL's table of locks, all that there are.
    private static func lock(_ subjects: [Subject], on session: borrowing Session) throws(DatabaseError) {
        let hashes = Set(subjects.map(KeyHash.lock(ofAccess:)))
        let all = session.lockKey(lockKey)
        if hashes.count > Limits.accessLocksMax { return try session.enqueue(Upkeep.lockStatement, all) }
        try session.enqueue(MessageAccessStatements.lockNotAll, all)
        var keys: [Int32] = []
        for hash in hashes { keys.append(session.halfLockKey(hash)) }
        try session.enqueue(MessageAccessStatements.lock, keys.sorted())
    }

    /// - Parameter held: up to one more than are listed.
    private static func text(of holder: Holder, _ version: Int64, _ held: [SubjectPurchase]) -> [UInt8] {
        JSONWriter.object { json in
            json.key("holder")
            json.object { json in json.member(holder.fieldName, holder.id) }
            json.member("version", version)
            json.member("purchases", objects: held.prefix(Limits.accessPurchasesMax)) { held, json in
                json.member("product", held.product)
                json.member("plan", held.plan)
                json.member("active", held.isActive)
                let until = held.until.flatMap { Timestamp.writable.contains($0) ? $0.iso8601 : nil }
                json.member("until", until)
                json.member("overdue", held.isOverdue)
                json.member("app", held.app)
                json.member("store", held.store)
                json.member("purchase", held.purchase)
                json.member("kind", held.kind)
            }
            json.member("more", held.count > Limits.accessPurchasesMax)
        }
    }
}

enum MessageAccessStatements {
    /// Waits while another transaction has the lock of all, and keeps others from it.
    static let lockNotAll = Statement<Int64, ()>("access_lock_not_all", "SELECT FROM pg_advisory_xact_lock_shared($1)")

    /// In the order of the array. The first key ("accs" as bytes) keeps these locks apart from other advisory locks.
    static let lock = Statement<[Int32], ()>(
        "access_lock",
        "SELECT FROM unnest($1) AS w (key) CROSS JOIN LATERAL pg_advisory_xact_lock(1633903475, w.key)")

    static let version = Statement<(), Int64>("access_version", "SELECT nextval('access_versions')")

    private static func held(
        place: Int64, product: String?, plan: String?, isActive: Bool, until: Timestamp?, isOverdue: Bool, app: String,
        store: String, purchase: String, kind: String
    ) -> MessageAccess.SubjectPurchase {
        MessageAccess.SubjectPurchase(
            place: Int(place), product: product, plan: plan, isActive: isActive, until: until, isOverdue: isOverdue,
            app: app, store: store, purchase: purchase, kind: kind)
    }

    /// The purchases of each holder ($3) in a source ($1) and an environment ($2), by the rule of
    /// `HolderEntitlementStatements.page`: active ones first, then those that last longer, `$7` at most. Ends are
    /// looked up of `$6` at most, so that somebody with thousands of purchases does not hold up the batch.
    /// Purchases are read row by row: planned while the table is empty, a plain join reads it whole.
    static let held = Statement<
        ([String], [String], [String], [String], [Int64?], Int32, Int32), MessageAccess.SubjectPurchase
    >(
        "access_held",
        """
        SELECT w.place, f.product, f.plan, f.active, f.until_ms, f.overdue, f.app, f.store, f.key, f.kind
        FROM unnest($1, $2, $3) WITH ORDINALITY AS w (source, environment, holder, place)
        CROSS JOIN LATERAL (
            SELECT p.id, p.product, p.plan, p.app, p.store, p.key, p.kind,
                   p.granted AND \(AccessEnd.goesOn(sources: "$4", leeways: "$5", at: AccessEnd.nowBehindLocks)) AS active,
                   t.effective_next_renewal_at_ms AS until_ms,
                   p.granted AND \(AccessEnd.hasPassed(at: AccessEnd.nowBehindLocks)) AS overdue
            FROM (
                SELECT q.id, q.source, q.app, q.store, q.key, q.kind, q.product, q.plan, e.active AS granted
                FROM entitlements e
                CROSS JOIN LATERAL (SELECT * FROM purchases WHERE id = e.purchase LIMIT 1) AS q
                WHERE e.holder = w.holder AND q.source = w.source AND q.environment = w.environment
                ORDER BY e.active DESC, e.purchase LIMIT $6
            ) AS p
            \(AccessEnd.newestTransaction(of: "p.id"))
            ORDER BY active DESC, until_ms DESC NULLS FIRST, p.id LIMIT $7
        ) AS f
        ORDER BY w.place, f.active DESC, f.until_ms DESC NULLS FIRST, f.id
        """, row: held)
}
