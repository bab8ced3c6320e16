internal import Ledger

extension LookupGate {
    /// Waits for a turn, then runs `body`. A request that finds too many others waiting, or that gets no turn within
    /// `timeout`, is answered 503.
    /// - Parameter timeout: counts from this call; `Backend.record` refuses a request whose whole time is over.
    func pass<Value: Sendable>(
        timeout: Duration = APILimits.answerTimeout, _ body: () async throws(LookupFailure) -> Value
    ) async throws(APIFailure) -> Value {
        let end = ContinuousClock.now + timeout
        guard await enter(.request, isLate: { ContinuousClock.now > end }) == nil else { throw .busy }
        defer { leave(.request) }
        do throws(LookupFailure) {
            return try await body()
        } catch {
            var failure = APIFailure.databaseAway
            failure.cause = "\(error)"
            throw failure
        }
    }
}
