internal import JSONText
package import Ledger
package import Vocabulary

/// Reads a statement of the app's backend back from its stored body (`BackendStatement.event`). The body names neither
/// the time nor the store transaction; the event's row has them.
package enum StoredStatement {
    /// - Returns: nil if the body is no statement of the API.
    package static func read(_ stored: StoredWebhook, of source: Source) -> ReadWebhook? {
        guard let name = BackendStatement.Name(rawValue: stored.name),
            let body = try? JSONScan.topObject(stored.body, depthMax: Limits.jsonDepthMax),
            let install = text("install", in: body), stored.holder == .anonymous(install)
        else { return nil }
        var statement = BackendStatement(name: name, scope: stored.scope, install: install, at: stored.occurredAt)
        switch name {
        case .userCreated: break
        case .loggedOut: statement.links = [HolderLink(anonymousID: install, userID: nil)]
        case .identified:
            guard let identity = text("identity", in: body) else { return nil }
            if source.loginMoves {
                statement.change = .identify(install: install, identity: identity)
            } else {
                statement.links = [HolderLink(anonymousID: install, userID: identity)]
            }
        case .restored:
            guard let transactions = try? body.texts("transactions"),
                let strategy = text("strategy", in: body).flatMap(RestoreStrategy.init)
            else { return nil }
            statement.change = .restore(install: install, transactions: transactions, strategy: strategy)
        case .entitlementGranted, .entitlementRevoked:
            guard let entitlement = text("entitlement", in: body) else { return nil }
            let grant = Grant(entitlement: entitlement, install: install, scope: stored.scope)
            if name == .entitlementRevoked { return revoked(grant, stored, statement) }
            guard let expires = (try? body.integer("expires_ms")) ?? nil else { return nil }
            let isJoining = text(Grant.joined, in: body) != nil
            return granted(grant, until: Timestamp(milliseconds: expires), isJoining: isJoining, stored, of: source)
        }
        return ReadWebhook(event(statement, stored))
    }

    private static func granted(
        _ grant: Grant, until: Timestamp, isJoining: Bool, _ stored: StoredWebhook, of source: Source
    ) -> ReadWebhook {
        let statement = grant.granting(
            to: [], insteadOf: [], at: stored.occurredAt, until: until, transaction: stored.storeTransactionID ?? "")
        return ReadWebhook(event(statement, stored)) { known in
            Grant.facts(
                to: source.ownership.holders(install: grant.install, identity: known.user),
                insteadOf: isJoining ? [] : known.holders, at: stored.occurredAt, until: until)
        }
    }

    /// Who had the grant is not in the body: everybody who has it then loses it.
    private static func revoked(
        _ grant: Grant, _ stored: StoredWebhook, _ statement: BackendStatement
    ) -> ReadWebhook {
        var statement = statement
        statement.purchase = grant.purchase
        return ReadWebhook(event(statement, stored)) { known in
            known.active.map {
                Fact(kind: .loss, holder: $0, at: stored.occurredAt, until: stored.occurredAt, isRevoked: true)
            }
        }
    }

    private static func event(_ statement: BackendStatement, _ stored: StoredWebhook) -> Event {
        statement.event(id: stored.vendorEventID ?? stored.key.eventID) { _ in }
    }

    private static func text(_ key: String, in body: JSONObject) -> String? { (try? body.string(key)) ?? nil }
}
