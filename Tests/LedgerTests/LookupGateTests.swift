import Testing

@testable import Ledger

/// Nothing here depends on time: a turn is too late where the test says so.
@Suite("The gate of look-ups", .timeLimit(.minutes(30)))
struct LookupGateTests {
    /// Enters, or begins to wait; the time limit of the suite ends it where it neither waits nor should be let in.
    private func wait(_ caller: LookupGate.Caller, isLate: Bool = false, at gate: LookupGate) async throws
        -> Task<LookupGate.Refusal?, Never>
    {
        let count = gate.waiting
        let task = Task { await gate.enter(caller, isLate: { isLate }) }
        while gate.waiting == count { try await Task.sleep(for: .milliseconds(1)) }
        return task
    }

    @Test("However small the pool, webhooks and requests together leave a connection to others", arguments: 2...5)
    func small(connections: Int) async throws {
        let gate = LookupGate(ofConnections: connections)
        let callers = [LookupGate.Caller.webhook, .request, .webhook, .request].prefix(connections - 1)
        for caller in callers { #expect(await gate.enter(caller, isLate: { false }) == nil) }
        let late = try await wait(.request, isLate: true, at: gate)
        let webhook = try await wait(.webhook, at: gate)
        gate.leave(.webhook)
        #expect(await late.value == .tooLate)
        #expect(await webhook.value == nil)
        #expect(gate.waiting == 0)
    }

    @Test("Two look-ups of one kind go on at once, and do not hold up the other kind")
    func kinds() async throws {
        let gate = LookupGate(ofConnections: 8)
        for _ in 0..<2 { #expect(await gate.enter(.request, isLate: { false }) == nil) }
        let request = try await wait(.request, at: gate)
        for _ in 0..<2 { #expect(await gate.enter(.webhook, isLate: { false }) == nil) }
        gate.leave(.webhook)
        #expect(gate.waiting == 1)
        gate.leave(.request)
        #expect(await request.value == nil)
    }
}
