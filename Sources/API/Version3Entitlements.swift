internal import HTTPServer
internal import JSONText
internal import Ledger
internal import Vocabulary

/// The entitlements of an install, by product, and grants made by hand.
extension Backend {
    func readUserEntitlements(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let view = try version3(call)
        let parameters = try call.parameters()
        let (cursor, limit) = (try parameters.cursor, try parameters.limit(default: APILimits.pageEntriesMax))
        // Only where it is named: purchases from before the source had an app of its own count otherwise.
        let app = try parameters.app
        let user = try await user(call.route.names[0], in: view)
        let page = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.products(
                of: .install(user.id),
                in: LookupScope(environment: user.environment, source: view.source.name, app: app), after: cursor,
                limit: limit)
        }
        let entries = page.entries.filter(\.isActive) + page.entries.filter { !$0.isActive }
        return .object { json in
            json.member("object", "list")
            json.member("data", objects: entries) { $1.write(Version3Entitlement($0)) }
            json.member("next", page.next?.written)
        }
    }

    /// Grants an entitlement. While a grant of the install lasts, a further one keeps its end, and gives it to whoever
    /// is logged in now, too.
    func grantEntitlement(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let view = try version3(call)
        let user = try await user(call.route.names[0], in: view)
        let (id, until) = try Self.grantAsked(call.body, now: try clock.now())
        let grant = Grant(entitlement: id, install: user.id, scope: view.scope(user.environment))
        // Begins again if another statement about it was recorded meanwhile: of two grants at once the later one must
        // keep the end of the first.
        while true {
            let known = try await purchase(of: grant)
            let identity = try await identity(of: user, in: view)
            let holders = view.source.ownership.holders(install: user.id, identity: identity.current)
            let active = known.holdings.filter(\.isActive)
            if holders.allSatisfy(active.map(\.holder).contains) { return Self.answer(id, known) }
            let at = try clock.next(after: [known.newestTime, identity.asOf].compactMap { $0 }.max())
            let lasting = active.first?.transaction
            let end = lasting?.effectiveNextRenewalAt ?? until
            var statement = grant.granting(
                to: holders, insteadOf: lasting == nil ? known.holdings.map(\.holder) : [], at: at, until: end,
                transaction: lasting?.storeTransactionID, purchasedAt: lasting?.purchasedAt)
            statement.presume(known)
            let isStored = try await record(statement, for: call) { json in
                json.member("entitlement", id)
                json.member("expires_ms", end.milliseconds)
                if let lasting { json.member(Grant.joined, lasting.storeTransactionID) }
            }
            if isStored { return Self.answer(id, try await purchase(of: grant)) }
        }
    }

    /// Revokes an entitlement; 200 even if nothing was granted.
    func revokeEntitlement(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let view = try version3(call)
        let user = try await user(call.route.names[0], in: view)
        let id = call.route.names[1]
        let grant = Grant(entitlement: id, install: user.id, scope: view.scope(user.environment))
        // Begins again as a grant does, and until nobody else has it: whoever got it meanwhile must lose it, too. Each
        // holder loses it once: one who has it after that got it by a newer statement, which stays.
        var revoked: Set<Holder> = []
        while true {
            let known = try await purchase(of: grant)
            // Also where its time is over: the clock that says so may be wrong, and then it would be active again.
            let granted = known.holdings.filter { $0.hasAccess && !revoked.contains($0.holder) }
            if granted.isEmpty { return Self.answer(id, known) }
            var statement = grant.revoking(granted, at: try clock.next(after: known.newestTime))
            statement.presume(known)
            let isStored = try await record(statement, for: call) { $0.member("entitlement", id) }
            if isStored { revoked.formUnion(granted.map(\.holder)) }
        }
    }

    private func purchase(of grant: Grant) async throws(APIFailure) -> GrantedPurchase {
        let purchase = KeyHash.purchase(grant.purchase, in: grant.scope)
        return try await gate.pass { () async throws(LookupFailure) in try await lookup.grant(purchase) }
    }

    private static func grantAsked(_ body: [UInt8], now: Timestamp) throws(APIFailure) -> (String, Timestamp) {
        do throws(APIFailure) {
            let body = try RequestBody(body)
            let id = try body.requiredIdentifier("id")
            guard let number = try body.integer("expires") else { throw .body("expires is missing") }
            let until = Timestamp(secondsOrMilliseconds: number)
            guard until > now, Timestamp.writable.contains(until) else { throw .body("expires is not in the future") }
            return (id, until)
        } catch {
            throw APIFailure(400, .request, .invalidEntitlementData, error.message)
        }
    }

    private static func answer(_ id: String, _ purchase: GrantedPurchase) -> HTTPAnswer {
        .object { $0.write(Version3Entitlement(id: id, holdings: purchase.holdings)) }
    }
}

extension BackendStatement {
    /// Is stored only if no newer event about its purchase is recorded than what is `known`. A restore is none, and may
    /// have passed the purchase on.
    fileprivate mutating func presume(_ known: GrantedPurchase) {
        presumedAsOf = known.asOf ?? Timestamp.distantPast
    }
}

/// A grant of the app's backend: a purchase of its own for each install, so that no two installs share one. It is a
/// one-time purchase: it passes on only with everything that its holder has, or by a restore that names it, where
/// one-time purchases are restored (posthouse-api(7)).
struct Grant {
    let entitlement: String
    let install: String
    let scope: Scope

    var purchase: Purchase {
        Purchase(
            key: "manual:\(install.utf8.count):\(install):\(entitlement)", kind: .oneTime,
            store: Purchase.manualStore, product: entitlement, plan: nil, subscriptionID: nil)
    }

    /// Member of the body: the transaction of a grant that lasted, which this one joins.
    static let joined = "joined"

    /// - Parameters:
    ///   - transaction: that of a grant that lasts, with its end and its time: a purchase has one end.
    ///   - purchasedAt: nil: `at`.
    func granting(
        to holders: [Holder], insteadOf former: [Holder], at: Timestamp, until: Timestamp, transaction: String? = nil,
        purchasedAt: Timestamp? = nil
    ) -> BackendStatement {
        var statement = BackendStatement(name: .entitlementGranted, scope: scope, install: install, at: at)
        statement.purchase = purchase
        statement.transaction = Transaction(
            storeTransactionID: transaction ?? "manual:" + Identifier.random().hex, storeOriginalTransactionID: nil,
            purchasedAt: purchasedAt ?? at, effectiveNextRenewalAt: until, offerType: "NONE", status: nil)
        statement.facts = Self.facts(to: holders, insteadOf: former, at: at, until: until)
        return statement
    }

    /// Whoever had it before and has it no more does not get it again: an identity that has logged out meanwhile, or
    /// another user. An end or a revocation ends the purchase, and leaves open whose it is.
    static func facts(to holders: [Holder], insteadOf former: [Holder], at: Timestamp, until: Timestamp) -> [Fact] {
        former.filter { !holders.contains($0) }.map {
            Fact(kind: .loss, holder: $0, at: at, until: at, isRevoked: true, isFamilyShared: true)
        } + holders.map { Fact(kind: .gain, holder: $0, at: at, until: until) }
    }

    func revoking(_ holdings: [GrantHolding], at: Timestamp) -> BackendStatement {
        var statement = BackendStatement(name: .entitlementRevoked, scope: scope, install: install, at: at)
        statement.purchase = purchase
        statement.transaction = holdings.first?.transaction.map { granted in
            Transaction(
                storeTransactionID: granted.storeTransactionID, storeOriginalTransactionID: nil,
                purchasedAt: granted.purchasedAt, effectiveNextRenewalAt: granted.effectiveNextRenewalAt,
                offerType: granted.offerType, status: "REVOKED")
        }
        statement.facts = holdings.map { Fact(kind: .loss, holder: $0.holder, at: at, until: at, isRevoked: true) }
        return statement
    }
}

extension Ownership {
    /// The holders of what an install gets while it is logged in.
    func holders(install: String, identity: String?) -> [Holder] {
        switch self {
        case .exclusive: [identity.map { .user($0) } ?? .anonymous(install)]
        case .installAndIdentity: [.anonymous(install)] + (identity.map { [.user($0)] } ?? [])
        }
    }
}
