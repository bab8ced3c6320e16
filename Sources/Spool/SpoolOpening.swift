package import Vocabulary

/// The spool of a daemon. It is unneeded until a source spools. One that could not be opened, for want of room or of a
/// permission, is away, and is tried again at an interval.
///
///     unneeded ─open─▶ open ─close─▶ closed
///        └─tryAgain─▶ away ─opened─▶ open
///
/// It can be closed in every state.
package final class SpoolOpening: Sendable {
    private struct Attempts: Sendable {
        let pause: Duration
        let open: @Sendable () async throws -> Spool
        let observe: Observer
    }

    private enum State: Sendable {
        case unneeded(Attempts)
        /// - Parameter reason: of the last attempt.
        case away(reason: String, Attempts)
        case open(Spool)
        case closed
    }

    package let directory: String
    private let state: Replaceable<State>
    /// Whose directory a spool may be that is used from now on.
    private let check = Replaceable<(@Sendable (_ directory: String) throws -> Void)?>(nil)

    package init(_ spool: Spool) {
        directory = spool.directory
        state = Replaceable(.open(spool))
    }

    /// - Parameters:
    ///   - pause: between two attempts.
    ///   - open: an attempt.
    package init(
        in directory: String, every pause: Duration = Limits.spoolAdoptionInterval,
        open: @escaping @Sendable () async throws -> Spool,
        observe: @escaping Observer
    ) {
        self.directory = directory
        state = Replaceable(.unneeded(Attempts(pause: pause, open: open, observe: observe)))
    }

    /// nil: it is unneeded, away or closed.
    package var current: Spool? { if case .open(let spool) = state.current { spool } else { nil } }

    /// Why it is away; nil: it is not.
    package var problem: String? { if case .away(let reason, _) = state.current { reason } else { nil } }

    /// Lets no spool be used from here on whose directory does not pass; one that is open is checked at once.
    package func admit(by check: @escaping @Sendable (_ directory: String) throws -> Void) throws {
        self.check.replace(check)
        if current != nil { try check(directory) }
    }

    /// Opens it, if it was unneeded so far; what fails leaves it so.
    package func open() async throws {
        guard case .unneeded(let attempts) = state.current else { return }
        try await open(attempts)
    }

    /// From here on it is away, if it was unneeded so far.
    /// - Parameter reason: why it could not be opened, which the caller reports.
    package func tryAgain(after reason: String) {
        state.change { state in
            if case .unneeded(let attempts) = state { state = .away(reason: reason, attempts) }
        }
    }

    /// Waits until the spool is open, and opens it where it is away. For one caller.
    /// - Returns: nil: it was closed, or the task cancelled.
    package func opened() async -> Spool? {
        while true {
            switch state.current {
            case .open(let spool): return spool
            case .closed: return nil
            case .unneeded(let attempts):
                // A reload may need it any time, and what it takes then is to be recorded soon; no disk is asked.
                guard (try? await Task.sleep(for: min(attempts.pause, .seconds(1)))) != nil else { return nil }
            case .away(_, let attempts):
                guard (try? await Task.sleep(for: attempts.pause)) != nil else { return nil }
                await attempt(attempts)
            }
        }
    }

    private func attempt(_ attempts: Attempts) async {
        do {
            guard try await open(attempts) else { return }
            attempts.observe(.warning("the spool could be opened now, and is used from here on"))
        } catch {
            let isFirstReport = state.change { state in
                guard case .away(let former, _) = state else { return false }
                state = .away(reason: "\(error)", attempts)
                return former != "\(error)"
            }
            if isFirstReport { attempts.observe(.warning("the spool still cannot be used: \(error)")) }
        }
    }

    /// - Returns: false: it was closed meanwhile.
    @discardableResult
    private func open(_ attempts: Attempts) async throws -> Bool {
        // Before, so that nothing is reported of what waits there; and behind it, once there is a directory to mark.
        try check.current?(directory)
        let spool = try await attempts.open()
        do {
            try check.current?(directory)
        } catch {
            await spool.close()
            throw error
        }
        let isWanted = state.change { state in
            switch state {
            case .open, .closed: return false
            case .unneeded, .away:
                state = .open(spool)
                return true
            }
        }
        if !isWanted { await spool.close() }
        return isWanted
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
