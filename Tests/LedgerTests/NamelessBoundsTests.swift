import Testing
import Vocabulary

@testable import Ledger

/// Purchases with more facts than are kept, of which some name nobody. Oracle: the transfers counted by hand.
@Suite("Nameless facts beyond the limits")
struct NamelessBoundsTests {
    private let own = Holder.anonymous("cus_1")
    private let day: Int64 = 86_400

    private func nameless(_ kind: Fact.Kind, _ at: Int64, until: Int64) -> PurchaseStatement {
        .fact(Fact(kind: kind, holder: own, at: seconds(at), until: seconds(until), isNamed: false))
    }

    private func gain(_ holder: Holder, _ at: Int64, until: Int64) -> PurchaseStatement {
        .fact(.activate(holder, seconds(at), until: seconds(until)))
    }

    @Test("A full list of facts takes nothing back that a nameless fact before it shows, and hides no later transfer")
    func behindFullList() {
        let named = PurchaseStatement.fact(Fact(kind: .naming, holder: user, at: seconds(-1)))
        var arrivals = [[named], [nameless(.gain, 0, until: 40 * day)]]
        for number in 1...70 as ClosedRange<Int64> {
            arrivals.append([gain(otherUser, number * 3_600, until: 40 * day)])
        }
        arrivals.append([gain(user, 80 * 3_600, until: 40 * day)])
        arrivals.append([gain(otherUser, 90 * 3_600, until: 40 * day)])
        let played = NamelessPlayback(arrivals, isStore: true)
        #expect(played.voids.isEmpty)
        #expect(
            played.announced.map { "\($0.from.id) \($0.to.id) \($0.ordinal)" } == [
                "\(user.id) \(otherUser.id) 1", "\(otherUser.id) \(user.id) 1", "\(user.id) \(otherUser.id) 2",
            ])
    }

    @Test("A late nameless webhook from before a full list of facts announces nothing that was counted")
    func lateBehindFullList() {
        var arrivals: [[PurchaseStatement]] = []
        for number in 0..<66 as Range<Int64> {
            let holder = number / 2 % 2 == 0 ? user : otherUser
            arrivals.append([gain(holder, number * 3_600, until: 40 * day)])
        }
        let before = NamelessPlayback(arrivals, isStore: true)
        #expect(before.announced.count == 32 && before.state.facts.count == PurchaseState.factsMax)
        let after = NamelessPlayback(arrivals + [[nameless(.gain, 1_800, until: 40 * day)]], isStore: true)
        #expect(after.announced == before.announced && after.voids.isEmpty)
    }

    @Test("More nameless facts than are kept, and then a name from before most of them: one transfer, none back")
    func lateNameOfMany() {
        let gains = (0..<41 as Range<Int64>).map { [nameless(.gain, $0 * 3_600, until: 40 * day)] }
        let link: [PurchaseStatement] = [.link(own, to: user, at: seconds(1_800))]
        let late = NamelessPlayback(gains + [link], isStore: true)
        let early = NamelessPlayback([gains[0], link] + gains.dropFirst(), isStore: true)
        #expect(late.announced == early.announced && late.announced.count == 1 && late.voids.isEmpty)
        #expect(late.access.filter(\.value.isActive).map(\.key) == [user])
    }
}
