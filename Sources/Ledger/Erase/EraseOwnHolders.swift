import Postgres
import Vocabulary

/// Holders of purchases' own that are the person: webhooks that name nobody are stored under them (Domain.md, "Nameless
/// facts").
///
/// Such a holder is the person if no purchase that it has, or had, names anybody else, and no link of it does. A
/// customer of a store who bought for two users is neither, though a link may say that it is one of them, and the
/// purchase that two users had in turn is both's: webhooks under those stay, because what they state is somebody
/// else's, too. Somebody who was erased before is nobody.
///
/// Webhooks that come meanwhile may name somebody else. So it is decided again wherever something is deleted, in the
/// same transaction: after what is to be deleted was found, and behind the locks that recording would wait for. If the
/// answer has changed, nothing is deleted, and the next run goes on without that holder (`Tally.isOvertaken`).
extension Erasure {
    /// - Parameters:
    ///   - holders: whom to erase.
    ///   - linked: anonymous ids that links say are the same person.
    ///   - source: nil: all sources.
    /// - Returns: those of `linked` that are no purchase's own holder, and the own holders that are the person, each
    ///   in order.
    static func findOwnHolders(
        of holders: [Holder], linked: [Holder], source: String?, on session: borrowing Session
    ) throws(DatabaseError) -> (known: [Holder], own: [Holder]) {
        var made: Set<Holder> = []
        if !linked.isEmpty {
            try forEachState(of: linked, source: source, on: session) { made.formUnion($0.madeHolders) }
        }
        let known = linked.filter { !made.contains($0) }
        let person = Set(holders + known)
        var own = made.intersection(linked)
        try forEachState(of: holders + known, source: source, on: session) { state in
            if state.namesNobody(besides: person) { own.formUnion(state.madeHolders) }
        }
        own.subtract(person)
        return (known, try unshared(own, of: person, source: source, on: session).sorted())
    }

    /// Those of the own holders that are nobody but the person.
    private static func unshared(
        _ own: Set<Holder>, of person: Set<Holder>, source: String?, on session: borrowing Session
    ) throws(DatabaseError) -> Set<Holder> {
        if own.isEmpty { return [] }
        var unshared = own
        try forEachState(of: own.sorted(), source: source, on: session) { state in
            if !state.namesNobody(besides: person) { unshared.subtract(state.madeHolders) }
        }
        let wanted = (own.map(\.storageKey), person.union(own).map(\.storageKey), source)
        let linked = Set(try session.run(EraseStatements.linkedElsewhere, wanted).compactMap { Holder(storageKey: $0) })
        return unshared.subtracting(linked)
    }

    /// Returns the same erasure without the own holders that are somebody else's by now, too.
    func withoutShared(on session: borrowing Session) throws(DatabaseError) -> Erasure {
        let unshared = try Self.unshared(
            ownHolders, of: Set(holders).subtracting(ownHolders), source: source, on: session)
        let shared = ownHolders.subtracting(unshared)
        return Erasure(
            ids: ids.filter { !shared.contains($0.holder) }, source: source, isDry: isDry,
            sharedInstalls: sharedInstalls, ownHolders: unshared)
    }

    /// Whether an own holder has become somebody else's since this run began.
    func isShared(on session: borrowing Session) throws(DatabaseError) -> Bool {
        if isDry || ownHolders.isEmpty { return false }
        return try withoutShared(on: session).ownHolders != ownHolders
    }

    /// Reads the purchases that entitlements and events lead to from the holders, a page at a time.
    private static func forEachState(
        of holders: [Holder], source: String?, on session: borrowing Session, _ take: (PurchaseState) -> Void
    ) throws(DatabaseError) {
        var after: Identifier? = Identifier(high: 0, low: 0)
        while let last = after {
            let page = try session.run(
                EraseStatements.statesOf, (holders.map(\.storageKey), source, last, stepMax))
            for held in page { take(try state(held.state, of: held.id)) }
            after = page.count < Int(stepMax) ? nil : page.last?.id
        }
    }

    static func state(_ bytes: [UInt8], of purchase: Identifier) throws(DatabaseError) -> PurchaseState {
        do throws(PurchaseState.Unreadable) {
            return try PurchaseState(bytes: bytes)
        } catch {
            let id = purchase.hex
            throw .protocolViolation(
                reason: "the state of purchase \(id) cannot be read: \(error); posthouse repair \(id) rebuilds it")
        }
    }
}

extension PurchaseState {
    /// The own holders that the store made. One that the app gave is an install: somebody.
    fileprivate var madeHolders: Set<Holder> { Set(own.filter { !$0.isGiven }.map(\.holder)) }

    /// Whether everybody whom anything names as a holder is one of `person`, or was erased.
    fileprivate func namesNobody(besides person: Set<Holder>) -> Bool {
        holders.subtracting(madeHolders).allSatisfy { person.contains($0) || ErasedID.isStandIn($0) }
    }
}
