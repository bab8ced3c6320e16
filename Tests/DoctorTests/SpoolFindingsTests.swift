import Linux
import Testing

@testable import Doctor

/// What the spool's line says. Oracle: posthouse-operate(7), "The spool".
@Suite("The spool, as the doctor sees it")
struct SpoolFindingsTests {
    private static func facts(
        sources: [String] = ["apphud"], isVisible: Bool = true, isWritable: Bool = true, webhooks: Int = 0,
        age: Int64? = nil, unconfigured: [String] = [], damaged: Int = 0, unreadable: Int = 0,
        available: Int = 50 << 30, former: [String] = []
    ) -> SpoolFacts {
        SpoolFacts(
            directory: "/s", bytesMax: 1 << 30, sources: sources, isVisible: isVisible, isWritable: isWritable,
            webhooks: webhooks, unreadable: unreadable, oldestMilliseconds: age, unconfigured: unconfigured,
            damaged: damaged,
            disk: DiskSpace(sizeBytes: 100 << 30, availableBytes: available), headroomBytes: 1 << 30,
            former: former)
    }

    @Test("Nothing is said where no source spools and nothing waits")
    func silent() {
        #expect(SpoolFindings.of(Self.facts(sources: [])) == [])
        #expect(SpoolFindings.of(Self.facts(sources: [], isVisible: false)) == [])
    }

    @Test(
        "What waits is a note for five minutes, then wrong; damage, a missing source and a full disk are wrong",
        arguments: [
            (facts(), [DoctorFinding.State.fine]), (facts(isVisible: false), [.unknown]),
            (facts(webhooks: 2, age: 299_999), [.note]), (facts(webhooks: 2, age: 300_000), [.wrong]),
            (facts(sources: [], webhooks: 2, age: 1, unconfigured: ["old"]), [.note, .wrong]),
            (facts(damaged: 1), [.wrong]), (facts(sources: [], unreadable: 1), [.wrong]),
            (facts(available: (1 << 30) - 1), [.wrong]),
            (facts(sources: [], damaged: 1, available: 0), [.wrong]), (facts(available: 1 << 30), [.fine]),
            (facts(isWritable: false), [.wrong]), (facts(sources: [], isWritable: false, webhooks: 1, age: 1), [.note]),
            (facts(sources: [], former: ["2 webhooks wait elsewhere"]), [.wrong]),
            (facts(former: ["2 webhooks wait elsewhere"]), [.wrong, .fine]),
        ])
    func states(_ facts: SpoolFacts, _ expected: [DoctorFinding.State]) {
        let found = SpoolFindings.of(facts)
        #expect(found.map(\.state) == expected && found.allSatisfy { $0.area == .spool })
        #expect(found.allSatisfy { ($0.state == .fine) == ($0.advice == nil) })
    }
}
