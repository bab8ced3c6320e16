import Testing

@testable import Ledger

@Suite struct DurabilityTests {
    private static let sound = Durability.Server(
        fsync: "on", synchronousCommit: "on", standbys: "", version: 150_018, isReadOnly: false)

    @Test("A server is refused unless it keeps what it acknowledged, and waits for the standbys that it has")
    func refusals() {
        func refusal(_ change: (inout Durability.Server) -> Void, isDeclared: Bool = false) -> String? {
            var server = Self.sound
            change(&server)
            return Durability.refusal(of: server, isDeclared: isDeclared).map { "\($0)" }
        }
        #expect(refusal { _ in } == nil)
        #expect(refusal { $0.standbys = "ANY 1 (node2, node3)" } == nil)
        #expect(refusal { $0.synchronousCommit = "local" } == nil)
        #expect(refusal { $0.standbys = nil } == nil)
        #expect(refusal { ($0.synchronousCommit, $0.standbys) = ("remote_write", "node2") } == nil)

        let waitsForNobody = refusal { ($0.synchronousCommit, $0.standbys) = ("local", "node2") }
        #expect(waitsForNobody?.contains("synchronous_commit = local") == true)
        #expect(refusal { $0.synchronousCommit = "off" }?.contains("synchronous_commit = off") == true)
        #expect(refusal({ $0.synchronousCommit = "off" }, isDeclared: true) != nil)
        #expect(refusal { $0.fsync = "off" }?.contains("fsync = off") == true)
        #expect(refusal { $0.fsync = nil }?.contains("does not show fsync") == true)
        #expect(refusal({ $0.fsync = nil }, isDeclared: true) == nil)
        #expect(refusal { $0.version = 140_010 }?.contains("needs 15") == true)
        #expect(refusal { $0.isReadOnly = true }?.contains("takes no changes") == true)
    }
}
