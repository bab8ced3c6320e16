import Ledger
import Vocabulary

/// Writes a batch of settlements; if the database refuses it, in halves, down to single settlements.
///
/// One refused settlement among a thousand is found after 11 refusals, and the others are written meanwhile. Where
/// everything is refused (a table that takes nothing), cutting further shows nothing new: after
/// `Limits.settleRefusalsMax` refusals the rest is returned untried.
struct SplitSettlement {
    let settle: SettlementBuffer.Settle
    let settled: @Sendable (Settled) async -> Void

    private enum Outcome {
        case written(Settled)
        case refused(reason: String)
        /// The process ends without the database: the lease will run out.
        case cancelled
    }

    /// - Returns: what was not written (first the untried, then the refused, each in the order of the batch), and why
    ///   it was refused.
    func write(_ batch: [Settlement]) async -> (left: [Settlement], reason: String?) {
        var parts = [batch[...]]
        var (refusals, lastReason): (Int, String?) = (0, nil)
        var refused: [Settlement] = []
        while let part = parts.popLast() {
            if refusals >= Limits.settleRefusalsMax {
                return (Array(([part] + parts.reversed()).joined()) + refused, lastReason)
            }
            switch await attempt(Array(part)) {
            case .written(let outcome): await settled(outcome)
            case .cancelled: return (Array(([part] + parts.reversed()).joined()) + refused, nil)
            case .refused(let reason):
                refusals += 1
                lastReason = reason
                if part.count > 1 {
                    let middle = part.startIndex + part.count / 2
                    parts += [part[middle...], part[..<middle]]
                } else {
                    refused += await withoutTexts(part)
                }
            }
        }
        return (refused, refused.isEmpty ? nil : lastReason)
    }

    /// Tries one settlement without its texts, because the database may refuse what a receiver answered; how the
    /// attempt ended counts for more.
    /// - Returns: the settlement with its texts if it could not be written.
    private func withoutTexts(_ alone: ArraySlice<Settlement>) async -> [Settlement] {
        guard let settlement = alone.first, settlement.failure != nil || settlement.verdict.hasText else {
            return Array(alone)
        }
        switch await attempt([settlement.withoutTexts]) {
        case .written(let outcome):
            await settled(outcome)
            return []
        case .refused, .cancelled: return [settlement]
        }
    }

    /// Tries until the database answers; a second time-out counts as a refusal.
    private func attempt(_ part: [Settlement]) async -> Outcome {
        var pause = Limits.reconnectBackoff.lowerBound
        var timeouts = 0
        while true {
            do throws(SettleFailure) {
                return .written(try await settle(part))
            } catch {
                switch error {
                case .refused(let reason): return .refused(reason: reason)
                case .timedOut(let reason):
                    timeouts += 1
                    if timeouts == 2 { return .refused(reason: reason) }
                case .unavailable: break
                }
            }
            if Task.isCancelled { return .cancelled }
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, Limits.reconnectBackoff.upperBound)
        }
    }
}
