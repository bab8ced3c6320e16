import Ledger
import Testing
import Vocabulary

@testable import Outbound

@Suite("What a new set of integrations means for the lanes that run")
struct LaneChangesTests {
    static func route(
        _ row: Int32, _ name: String, concurrency: Int = 1, authorities: String? = nil
    ) -> RoutedIntegration {
        RoutedIntegration(
            row: row,
            integration: Integration(
                name: name, url: EndpointURL(isTLS: false, host: "127.0.0.1", port: 9, target: "/"),
                events: [Glob("*")], environments: [], sources: [], format: .standard, signingKeys: [], headers: [],
                timeout: .seconds(1),
                schedule: RetrySchedule(gaps: RetrySchedule.defaultGaps, jitter: 0, giveUpAfter: nil),
                permanentStatuses: [], concurrency: concurrency, order: .purchase, allowsPrivateAddresses: true,
                certificateAuthorityFile: authorities))
    }

    /// Names of what was added, changed and removed.
    private func between(_ present: [RoutedIntegration], _ wanted: [RoutedIntegration]) -> [[String]] {
        let changes = LaneChanges.between(present: present, wanted: wanted)
        return [changes.added, changes.changed, changes.removed].map { $0.map(\.integration.name) }
    }

    @Test("What is as it was is left alone")
    func unchanged() {
        let lanes = [Self.route(1, "a"), Self.route(2, "b")]
        #expect(between(lanes, lanes) == [[], [], []])
        #expect(between([], []) == [[], [], []])
        #expect(between([], lanes) == [["a", "b"], [], []])
    }

    @Test("Another value is a change, reported as it will be")
    func changed() throws {
        let changes = LaneChanges.between(
            present: [Self.route(1, "a"), Self.route(2, "b")],
            wanted: [Self.route(1, "a"), Self.route(2, "b", concurrency: 5)])
        #expect(changes.added.isEmpty && changes.removed.isEmpty)
        #expect(changes.changed.map(\.integration.concurrency) == [5])
    }

    @Test("A file of authorities may hold others by now: equal values are a change, too")
    func authorities() {
        let lane = Self.route(1, "a", authorities: "/ca.pem")
        #expect(between([lane], [lane]) == [[], ["a"], []])
        #expect(between([lane], [Self.route(1, "a")]) == [[], ["a"], []])
    }

    @Test("Renamed: one that goes and another that comes")
    func renamed() {
        #expect(between([Self.route(1, "a")], [Self.route(2, "b")]) == [["b"], [], ["a"]])
    }

    @Test("All removed")
    func removed() {
        let changes = between([Self.route(1, "a"), Self.route(2, "b")], [])
        #expect(changes[0].isEmpty && changes[1].isEmpty && changes[2].sorted() == ["a", "b"])
    }

    @Test("An integration without a plan is an error, and no lane is left out in silence")
    func unplanned() throws {
        let route = Self.route(1, "a")
        let plans = try LanePlan.make([route.integration], version: "0")
        #expect(try PlannedLane.join([route], plans).map(\.route.row) == [1])
        #expect(throws: PlannedLane.Unplanned.self) { try PlannedLane.join([route, Self.route(2, "b")], plans) }
    }
}
