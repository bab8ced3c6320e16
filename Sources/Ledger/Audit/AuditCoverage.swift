/// What an audit has counted. A message counts once for each integration that it was for.
package struct AuditCoverage: Sendable, Equatable {
    /// Messages of which it is known what became of them.
    package var messages = 0
    package var delivered = 0
    package var waiting = 0
    /// Given up: dead letters.
    package var dead = 0
    /// Given up by hand: dead letters, or thrown away.
    package var discarded = 0
    /// Given up because a person is being erased.
    package var erased = 0
    /// Messages from before the kept attempts: nobody knows what became of them.
    package var older = 0
    /// Messages of which it was not noted whom they were for.
    package var unnoted = 0

    static func += (left: inout AuditCoverage, right: AuditCoverage) {
        left.messages += right.messages
        left.delivered += right.delivered
        left.waiting += right.waiting
        left.dead += right.dead
        left.discarded += right.discarded
        left.erased += right.erased
        left.older += right.older
        left.unnoted += right.unnoted
    }
}
