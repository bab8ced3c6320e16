import Testing
import Vocabulary

/// Oracle: the rule as the manual states it, case by case (posthouse-api(7), "Access and time").
@Suite("Access by the clock")
struct TimedAccessTests {
    struct Case: Sendable {
        var isGranted = true
        var until: Int64?
        var store = "APPLE_APP_STORE"
        var leeway = Leeway.lasting(100)
        let isActive: Bool
        let isOverdue: Bool
    }

    /// The time is 1,000.
    static let cases = [
        Case(isActive: true, isOverdue: false),
        Case(isGranted: false, isActive: false, isOverdue: false),
        Case(until: 1_001, isActive: true, isOverdue: false),
        Case(until: 1_000, isActive: true, isOverdue: true),
        Case(until: 901, isActive: true, isOverdue: true),
        Case(until: 900, isActive: false, isOverdue: true),
        Case(until: .min, isActive: false, isOverdue: true),
        Case(until: .max, isActive: true, isOverdue: false),
        Case(isGranted: false, until: 900, isActive: false, isOverdue: false),
        Case(isGranted: false, until: 1_001, isActive: false, isOverdue: false),
        Case(until: 1, leeway: .off, isActive: true, isOverdue: true),
        Case(until: 1_001, leeway: .lasting(0), isActive: true, isOverdue: false),
        Case(until: 1_000, leeway: .lasting(0), isActive: false, isOverdue: true),
        Case(until: 1_001, store: "MANUAL", isActive: true, isOverdue: false),
        Case(until: 1_000, store: "MANUAL", isActive: false, isOverdue: false),
        Case(until: 1_000, store: "MANUAL", leeway: .off, isActive: false, isOverdue: false),
    ]

    @Test("An end ends access after the leeway; without a word it is overdue", arguments: cases)
    func rule(_ row: Case) {
        let access = TimedAccess(
            isGranted: row.isGranted, until: row.until.map { Timestamp(milliseconds: $0) }, store: row.store,
            leeway: row.leeway)
        let now = Timestamp(milliseconds: 1_000)
        #expect(access.isActive(at: now) == row.isActive)
        #expect(access.isOverdue(at: now) == row.isOverdue)
        if let lapsesAt = access.lapsesAt {
            #expect(!access.isActive(at: lapsesAt) || lapsesAt.milliseconds == .max)
        }
    }

    @Test("A leeway is whole milliseconds, 24 h if not said")
    func milliseconds() {
        #expect(Leeway(.seconds(90)) == .lasting(90_000) && Leeway(.milliseconds(1_250)) == .lasting(1_250))
        #expect(Leeway.usual == Leeway(.seconds(24 * 3_600)) && Leeway.off.milliseconds == nil)
    }
}
