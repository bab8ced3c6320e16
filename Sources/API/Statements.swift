internal import JSONText
internal import Ledger
internal import Vocabulary

/// What the app's backend states: an event like any other, recorded before it is answered.
struct BackendStatement {
    /// Its name and type.
    enum Name: String {
        case identified = "IDENTIFIED"
        case loggedOut = "LOGGED_OUT"
        case restored = "RESTORED"
        case userCreated = "USER_CREATED"
        case entitlementGranted = "ENTITLEMENT_GRANTED"
        case entitlementRevoked = "ENTITLEMENT_REVOKED"
    }

    let name: Name
    let scope: Scope
    let install: String
    let at: Timestamp
    var change: HolderChange?
    var links: [HolderLink] = []
    var purchase: Purchase?
    var transaction: Transaction?
    var facts: [Fact] = []

    /// - Parameter asked: writes the members of what was asked for.
    func event(id: String, asked: (inout JSONWriter) -> Void) -> Event {
        var json = JSONWriter()
        json.object { json in
            json.member("event_name", name.rawValue)
            json.member("event_id", id)
            json.member("environment", scope.environment)
            json.member("install", install)
            asked(&json)
        }
        return Event(
            scope: scope, vendorEventID: id, name: name.rawValue, type: name.rawValue, holder: .anonymous(install),
            occurredAt: at, purchase: purchase, transaction: transaction, facts: facts, change: change, links: links,
            body: json.bytes)
    }
}

extension Backend {
    /// Returns when it has been committed.
    func record(_ statement: BackendStatement, asked: (inout JSONWriter) -> Void = { _ in }) async throws(APIFailure) {
        let event = statement.event(id: RandomID.uuid(), asked: asked)
        let answer = await withCheckedContinuation { continuation in
            queue.submit(.event(event)) { continuation.resume(returning: $0) }
        }
        guard case .stored = answer else {
            throw .unavailable(
                "it could not be recorded now; send it again", after: Limits.retryAfterUnavailableSeconds)
        }
    }

    /// The source and environment that a write concerns. There is no vendor's bundle id to go by.
    func written(_ call: Call, _ parameters: Parameters) throws(APIFailure) -> (Source, Scope) {
        let environment = try parameters.identifier(.environment) ?? Self.usualEnvironment
        let source = try sources.changed(try parameters.identifier(.source), by: call.token)
        return (source, Scope(source: source.name, app: source.app ?? "", environment: environment))
    }
}

/// Names that nobody can guess and nobody else has.
enum RandomID {
    private static func bytes() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return Identifier(high: generator.next(), low: generator.next()).bytes
    }

    /// A UUID of version 4 (RFC 9562 section 5.4).
    static func uuid() -> String {
        var bytes = bytes()
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let hex = Identifier.hex(of: bytes)
        var parts: [Substring] = []
        var rest = hex[...]
        for length in [8, 4, 4, 4, 12] {
            parts.append(rest.prefix(length))
            rest = rest.dropFirst(length)
        }
        return parts.joined(separator: "-")
    }

    /// 32 hex digits.
    static func bare() -> String { Identifier.hex(of: bytes()) }
}
