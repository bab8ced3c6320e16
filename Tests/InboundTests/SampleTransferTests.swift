import Testing
import Vocabulary

@testable import Inbound

/// Which side the holder of a sample is. Oracle: what the relay reads in the body, written out by hand.
@Suite struct SampleTransferTests {
    private func stated(
        _ kind: SourceKind, _ name: String, _ holder: Holder, _ counterpart: Holder?
    ) -> StatedTransfer? {
        let adapter = SourceAdapters.adapter(for: kind)
        let request = SampleRequest(
            eventName: name, holder: holder, counterpart: counterpart, storeTransactionID: "71", purchaseID: "subs_1",
            occurredAt: Timestamp(milliseconds: 1_700_000_000_000), eventID: "e-1")
        return adapter.statedTransfer(in: adapter.sample(request), header: { _ in nil }, kind: kind)
    }

    @Test("What the help says of an event is what its sample states", arguments: SourceKind.allCases)
    func roles(_ kind: SourceKind) {
        let pairs: [(Holder, Holder)] = [(.user("h"), .user("o")), (.user("h"), .anonymous("o"))]
        for transfer in SourceAdapters.adapter(for: kind).sampleTransfers {
            for (holder, other) in pairs {
                let found = stated(kind, transfer.eventName, holder, other)
                switch transfer.role {
                case .gives:
                    #expect(found?.givers.map(\.isAnonymous) == [false] && found?.givers.first?.id == "h")
                    #expect(found?.receiver?.id.hasSuffix("o") == true && found?.needsMerge == false)
                case .gets:
                    #expect(found?.receiver == .user("h") && found?.givers.count == 1)
                    #expect(found?.givers.first?.id.hasSuffix("o") == true && found?.needsMerge == false)
                case .logsIn:
                    guard other.isAnonymous else { continue }
                    #expect(found?.givers == [.anonymous("o")] && found?.receiver == .user("h"))
                    #expect(found?.needsMerge == true)
                    // Whichever option names which.
                    let swapped = stated(kind, transfer.eventName, other, holder)
                    #expect(swapped == found)
                }
            }
        }
    }

    @Test("Every other event of a sample states no transfer", arguments: SourceKind.allCases)
    func others(_ kind: SourceKind) {
        let adapter = SourceAdapters.adapter(for: kind)
        let transfers = Set(adapter.sampleTransfers.map(\.eventName))
        for name in adapter.knownEventNames {
            let found = stated(kind, name, .anonymous("a"), .user("u"))
            #expect((found != nil) == transfers.contains(name), "\(kind.rawValue) \(name): the help does not say so")
        }
    }

    @Test("A side that is not named is left out; an unreadable body states nothing")
    func unnamed() {
        let given = stated(.purchasely, "SUBSCRIPTION_TRANSFERRED", .user("h"), nil)
        #expect(given?.givers == [.user("h")] && given?.receiver == nil)
        let got = stated(.purchasely, "SUBSCRIPTION_RECEIVED", .user("h"), nil)
        #expect(got?.givers == [] && got?.receiver == .user("h"))
        let adapter = SourceAdapters.adapter(for: .purchasely)
        #expect(adapter.statedTransfer(in: [], header: { _ in nil }, kind: .purchasely) == nil)
    }

    @Test("Lines of the help fit a terminal", arguments: SourceKind.allCases)
    func width(_ kind: SourceKind) {
        #expect(SourceAdapters.adapter(for: kind).sampleTransferNote.count <= 76)
    }
}
