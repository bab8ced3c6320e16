internal import Vocabulary

/// All operations of the API, each with a method and a path. Routing, scopes and accepted parameters come from here,
/// and a test compares openapi.json with it.
enum APIOperation: String, CaseIterable {
    case readDescription
    case readEntitlements
    case readHistory
    case readTransfers
    case readIdentities
    case readEligibility
    case judgeReceipt
    case identify
    case logout
    case restore
    // The paths and shapes of a vendor's third version, so that its clients need only another host and token.
    case readUser
    case createUser
    case readIdentity
    case createIdentity
    case readUserEntitlements
    case grantEntitlement
    case revokeEntitlement

    var method: String {
        switch self {
        case .readDescription, .readEntitlements, .readHistory, .readTransfers, .readIdentities, .readEligibility,
            .readUser, .readIdentity, .readUserEntitlements:
            "GET"
        case .revokeEntitlement: "DELETE"
        case .judgeReceipt, .identify, .logout, .restore, .createUser, .createIdentity, .grantEntitlement: "POST"
        }
    }

    /// `{…}` matches one segment.
    var path: String {
        switch self {
        case .readDescription: "/v1/openapi.json"
        case .readEntitlements: "/v1/entitlements"
        case .readHistory: "/v1/history"
        case .readTransfers: "/v1/transfers"
        case .readIdentities: "/v1/identities"
        case .readEligibility, .judgeReceipt: "/v1/eligibility"
        case .identify: "/v1/users/{install}/identify"
        case .logout: "/v1/users/{install}/logout"
        case .restore: "/v1/users/{install}/restore"
        case .readUser, .createUser: "/v3/users/{id}"
        case .readIdentity, .createIdentity: "/v3/identities/{id}"
        case .readUserEntitlements, .grantEntitlement: "/v3/users/{id}/entitlements"
        case .revokeEntitlement: "/v3/users/{id}/entitlements/{entitlement}"
        }
    }

    /// The query parameters that the operation accepts.
    var parameters: [Parameter] {
        switch self {
        case .readDescription, .judgeReceipt: []
        case .readEntitlements: [.install, .userID, .anonymousUserID, .environment, .source, .active, .limit, .cursor]
        case .readHistory, .readTransfers:
            [.install, .userID, .anonymousUserID, .environment, .source, .limit, .cursor]
        case .readIdentities: [.userID, .anonymousUserID, .environment, .source, .limit, .cursor]
        case .readEligibility: [.install, .userID, .anonymousUserID, .environment, .source, .group, .offer]
        case .readUserEntitlements: [.environment, .source, .app, .limit, .cursor]
        case .identify, .logout, .restore, .readUser, .createUser, .readIdentity, .createIdentity, .grantEntitlement,
            .revokeEntitlement:
            [.environment, .source, .app]
        }
    }

    /// The scope that a token needs. Judging a receipt stores nothing, so it is a read.
    var scope: APIToken.Scope { method == "GET" || self == .judgeReceipt ? .read : .write }
}

/// A query parameter.
enum Parameter: String, CaseIterable {
    case install
    case userID = "user_id"
    case anonymousUserID = "anonymous_user_id"
    case environment
    case source
    case app
    case active
    case limit
    case cursor
    case group
    case offer

    /// May be given several times.
    var isRepeatable: Bool { self == .group }
}

/// An operation with the names in its path.
struct Route {
    let operation: APIOperation
    /// The values of the segments in braces, decoded, in order.
    let names: [String]

    private static let table: [(operation: APIOperation, segments: [Substring])] = APIOperation.allCases.map {
        ($0, segments(of: $0.path))
    }

    /// - Throws: 404 for an unknown path, 405 for a path with other methods, 400 for a name that cannot be read.
    init(method: String, path: String) throws(APIFailure) {
        let wanted = Self.segments(of: path)
        let known = Self.table.filter { Self.matches($0.segments, wanted) }
        guard !known.isEmpty else { throw .notFound }
        guard let found = known.first(where: { $0.operation.method == method }) else {
            let methods = known.map(\.operation.method).flatMap { $0 == "GET" ? ["GET", "HEAD"] : [$0] }
            let allowed = methods.sorted().joined(separator: ", ")
            throw APIFailure(
                405, .request, .methodNotAllowed, "only \(allowed) is understood here", headers: [("allow", allowed)])
        }
        operation = found.operation
        var names: [String] = []
        for (template, segment) in zip(found.segments, wanted) where template.hasPrefix("{") {
            names.append(try Self.name(segment, of: template.dropFirst().dropLast()))
        }
        self.names = names
    }

    private static func segments(of path: String) -> [Substring] {
        path.split(separator: "/", omittingEmptySubsequences: false)
    }

    private static func matches(_ template: [Substring], _ path: [Substring]) -> Bool {
        template.count == path.count
            && zip(template, path).allSatisfy { $0 == $1 || $0.hasPrefix("{") && !$1.isEmpty }
    }

    private static func name(_ segment: Substring, of variable: Substring) throws(APIFailure) -> String {
        let name: String
        do throws(PercentText.Fault) {
            name = try PercentText.decode(segment, plusIsSpace: false)
        } catch {
            throw .parameter("{\(variable)} in the path cannot be read: \(error)")
        }
        return try Parameters.identifier(name, "{\(variable)} in the path")
    }
}
