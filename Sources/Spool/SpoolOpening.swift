package import Vocabulary

/// The spool of a daemon. One that could not be opened at the start, for want of room or of a permission, is away, and
/// is tried again at an interval.
///
///     away ─opened─▶ open ─close─▶ closed
///       └────────────close─────────▶
package final class SpoolOpening: Sendable {
    private struct Attempts: Sendable {
        let pause: Duration
        let open: @Sendable () async throws -> Spool
        let observe: Observer
    }

    private enum State: Sendable {
        /// - Parameter reason: of the last attempt.
        case away(reason: String, Attempts)
        case open(Spool)
        case closed
    }

    private let state: Replaceable<State>

    package init(_ spool: Spool) { state = Replaceable(.open(spool)) }

    /// - Parameters:
    ///   - reason: why it could not be opened, which the caller has reported.
    ///   - pause: between two attempts.
    ///   - open: an attempt.
    package init(
        away reason: String, every pause: Duration = Limits.spoolAdoptionInterval,
        open: @escaping @Sendable () async throws -> Spool, observe: @escaping Observer
    ) {
        state = Replaceable(.away(reason: reason, Attempts(pause: pause, open: open, observe: observe)))
    }

    /// nil: it is away, or closed.
    package var current: Spool? { if case .open(let spool) = state.current { spool } else { nil } }

    /// Why it is away; nil: it is not.
    package var obstacle: String? { if case .away(let reason, _) = state.current { reason } else { nil } }

    /// Waits until the spool is open, and opens it. For one caller.
    /// - Returns: nil: it was closed, or the task cancelled.
    package func opened() async -> Spool? {
        while true {
            switch state.current {
            case .open(let spool): return spool
            case .closed: return nil
            case .away(_, let attempts):
                guard (try? await Task.sleep(for: attempts.pause)) != nil else { return nil }
                await attempt(attempts)
            }
        }
    }

    private func attempt(_ attempts: Attempts) async {
        do {
            let spool = try await attempts.open()
            let isWanted = state.change { state in
                guard case .away = state else { return false }
                state = .open(spool)
                return true
            }
            guard isWanted else { return await spool.close() }
            attempts.observe(.warning("the spool could be opened now, and is used from here on"))
        } catch {
            state.change { state in
                if case .away = state { state = .away(reason: "\(error)", attempts) }
            }
        }
    }

    /// Closes the spool, and opens none any more.
    package func close() async {
        let spool = state.change { state -> Spool? in
            defer { state = .closed }
            return if case .open(let spool) = state { spool } else { nil }
        }
        await spool?.close()
    }
}
