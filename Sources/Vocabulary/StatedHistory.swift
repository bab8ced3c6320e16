/// What an export says of who had a purchase: all that its ledger knew, so that another judges the next webhook alike.
package struct StatedHistory: Hashable, Sendable {
    /// Somebody who has or had the purchase.
    package struct Holding: Hashable, Sendable {
        package let holder: Holder
        package let isActive: Bool
        /// Event time that this is as of.
        package let asOf: Timestamp

        package init(holder: Holder, isActive: Bool, asOf: Timestamp) {
            self.holder = holder
            self.isActive = isActive
            self.asOf = asOf
        }
    }

    /// The state of the purchase, as it is stored.
    package let state: [UInt8]
    /// Everybody whom the ledger knew as a holder. Access follows from the state; those whom it does not name any more
    /// had the purchase once.
    package let holders: [Holding]

    package init(state: [UInt8], holders: [Holding]) {
        self.state = state
        self.holders = holders
    }
}
