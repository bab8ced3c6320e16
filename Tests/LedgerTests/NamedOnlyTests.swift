import Testing
import Vocabulary

@testable import Ledger

/// Where every event names somebody, nothing of what daemons have stored and announced may change. Oracle: a digest of
/// the same histories, which the version before nameless facts gave; the one with logins was taken anew when a login
/// ceased to pass on what had ended without a stated end, and when the first loss came to decide ties of one time.
/// Without those rules it is still the former one.
@Suite("Purchases whose events always name somebody")
struct NamedOnlyTests {
    /// FNV-1a, 64 bits (draft-eastlake-fnv-17, section 2).
    private struct Digest {
        private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

        mutating func take(_ bytes: some Sequence<UInt8>) {
            for byte in bytes { value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        }
    }

    private static func fact(_ at: Int64, _ dice: inout Dice) -> Fact {
        let holders = [anonymous, user, otherUser, .anonymous("device-2")]
        return Fact(
            kind: [.gain, .gain, .loss, .transferred, .received].randomElement(using: &dice) ?? .gain,
            holder: holders.randomElement(using: &dice) ?? user,
            counterpart: dice.chance(80) ? holders.randomElement(using: &dice) : nil, at: seconds(at),
            until: dice.chance(80) ? seconds(at + Int64.random(in: -10...200, using: &dice) * 3_600) : nil,
            isRevoked: dice.chance(10), isFamilyShared: dice.chance(10))
    }

    @Test("States, transfers, access and voids of random histories with logins are what they were")
    func digest() {
        var (dice, digest) = (Dice(state: 83), Digest())
        for _ in 0..<400 {
            var state = PurchaseState()
            let kind: Purchase.Kind = dice.chance(10) ? .oneTime : .subscription
            for _ in 0..<Int.random(in: 2...30, using: &dice) {
                let at = Int64.random(in: 0...3_000, using: &dice) * 3_600
                let fact = Self.fact(at, &dice)
                let login = KeptMove(
                    at: seconds(at), from: dice.chance(20) ? nil : anonymous, to: user, isLogin: dice.chance(50))
                let moves = dice.chance(20) && !state.isSettled(login) ? [login] : []
                let resolution = TransferResolution.resolve(state, [fact], moves: moves, kind: kind)
                state = resolution.state
                digest.take(state.bytes)
                digest.take(state.bytes(.plain))
                for transfer in resolution.announced {
                    digest.take("\(transfer.from.storageKey) \(transfer.to.storageKey) \(transfer.ordinal)".utf8)
                }
                for (holder, access) in resolution.access.sorted(by: { $0.key < $1.key }) {
                    digest.take("\(holder.storageKey) \(access.isActive) \(access.asOf.milliseconds)".utf8)
                }
                for void in resolution.voids { digest.take("\(void.from.storageKey) \(void.count)".utf8) }
            }
        }
        #expect(digest.value == 12_265_085_974_944_609_926)
    }
}
