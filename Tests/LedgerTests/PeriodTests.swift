import Testing
import Vocabulary

@testable import Ledger

/// Oracle: by hand.
@Suite("When periods begin, and when their time is over")
struct PeriodTests {
    private static let day = Duration.seconds(86_400)

    private static func retention(days: Int) -> Retention {
        Retention(attempts: day * days, events: day * days, duplicates: day)
    }

    /// - Parameter ages: in days, the oldest first; the first period is the third.
    private static func facts(_ ages: [Double], positions: [Int64] = [0, 0]) -> PeriodFacts {
        let existing = ages.enumerated().map { PeriodFacts.Existing(period: Int64(3 + $0), age: day * $1) }
        return PeriodFacts(existing: existing, positions: positions)
    }

    @Test("A period lasts a day, or a sixtieth of the time for which events are kept")
    func length() {
        #expect(Period.length(Self.retention(days: 1)) == Self.day)
        #expect(Period.length(Self.retention(days: 60)) == Self.day)
        #expect(Period.length(Self.retention(days: 400)) == Self.day * 400 / 60)
    }

    @Test("Ids of one period lie below those of the next, and JSON can carry them")
    func ids() {
        #expect(Period.firstID(1) == 4_294_967_296 && Period.firstID(2) - Period.firstID(1) == Period.firstID(1))
        #expect(Period.firstID(2_000_000) < 1 << 53)
    }

    @Test("The next begins once the newest has lasted its length, whatever the others; none without a first")
    func due() {
        let retention = Self.retention(days: 120)
        #expect(Self.facts([]).due(retention) == nil)
        #expect(Self.facts([9, 1.9]).due(retention) == nil)
        #expect(Self.facts([9, 2]).due(retention) == 5)
        // The clock was set back.
        #expect(Self.facts([9, -30]).due(retention) == nil)
    }

    @Test("A period that the ids have reached begins at once; beyond a limit none begins by its time alone")
    func reached() {
        let retention = Self.retention(days: 120)
        #expect(Self.facts([0], positions: [Period.firstID(3) - 1, Period.firstID(4) - 2]).due(retention) == nil)
        #expect(Self.facts([0], positions: [Period.firstID(3), Period.firstID(4) - 1]).due(retention) == 4)
        #expect(Self.facts([0], positions: [Period.firstID(9) + 5, 7]).due(retention) == 9)
        let many = Array(repeating: 3.0, count: Period.keptHardMax)
        #expect(Self.facts(many).due(retention) == nil && Self.facts(many.dropLast()).due(retention) != nil)
    }

    @Test("A sequence that was not moved to the newest period is moved")
    func missed() {
        let last = Period.firstID(4) - 1
        #expect(Self.facts([]).missedID == nil)
        #expect(Self.facts([5, 1], positions: [last, last]).missedID == nil)
        #expect(Self.facts([5, 1], positions: [last - 1, last]).missedID == last)
        #expect(Self.facts([5, 1], positions: [last + 7, 12]).missedID == last)
    }

    @Test("A period is past its time once the next began before the time for which events are kept; never the newest")
    func past() {
        let retention = Self.retention(days: 30)
        #expect(Self.facts([]).past(retention) == [] && Self.facts([]).firstIDWithinTime(retention) == nil)
        #expect(Self.facts([99]).past(retention) == [])
        #expect(Self.facts([40, 30]).past(retention) == [], "an event may be recorded a little after its id was drawn")
        #expect(Self.facts([40, 31]).past(retention) == [3])
        #expect(Self.facts([40, 31]).firstIDWithinTime(retention) == Period.firstID(4))
        #expect(Self.facts([50, 40, 35, 20]).past(retention) == [3, 4])
        #expect(Self.facts([50, 40, 35, 20]).firstIDWithinTime(retention) == Period.firstID(5))
        // Where no period begins any more, the newest is pruned row by row.
        let many = (0..<Period.keptHardMax).map { Double(Period.keptHardMax - $0 + 31) }
        #expect(Self.facts(many).firstIDWithinTime(retention) == nil)
        #expect(Self.facts(Array(many.dropFirst())).firstIDWithinTime(retention) != nil)
        // With the clock back in between, nothing behind the first that is within its time goes.
        #expect(Self.facts([50, 10, 40, 20]).past(retention) == [])
    }
}
