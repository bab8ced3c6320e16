import Foundation
import TestSupport
import Testing

/// Faults under load. The oracle stands outside the daemon: what the source was answered 200 for,
/// against what the receivers got and what the ledger says. One at a time: each needs the machine's attention.
/// Short, and what deploy/torture does not do: its faults are more, under more load.
@Suite(.serialized) struct FaultTests {
    /// Many short gaps: a receiver that fails now and then never uses them up.
    static let manyGaps = "[" + Array(repeating: #""100ms""#, count: 30).joined(separator: ", ") + "]"

    /// Answers 500 to one request in five, by the request's number.
    static let oneInFive: Receiver.Script = { $0.number % 5 == 4 ? .status(500) : .ok }

    /// Everything acknowledged is at `receiver`: whole, verified, under one id each, in the order of its purchase.
    static func expectComplete(
        _ receiver: Receiver, of load: FaultLoad.Tally, ordered: Bool = true,
        sourceLocation: SourceLocation = #_sourceLocation
    ) -> FaultReceipts {
        let receipts = FaultReceipts(receiver)
        #expect(receipts.missing(of: load) == [], sourceLocation: sourceLocation)
        #expect(receipts.misannounced(of: load) == [], sourceLocation: sourceLocation)
        if ordered { #expect(receipts.outOfOrder(of: load) == [], sourceLocation: sourceLocation) }
        #expect(receipts.unverified == 0, sourceLocation: sourceLocation)
        #expect(receipts.changedBodies == 0, sourceLocation: sourceLocation)
        return receipts
    }

    /// The ledger holds each acknowledged event once, each transfer once, and nobody has access who should not.
    static func expectSound(
        _ database: Database, of load: FaultLoad.Tally, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(try database.notOnce(load) == [], sourceLocation: sourceLocation)
        #expect(try database.wrongHolders(load) == [], sourceLocation: sourceLocation)
        #expect(try database.count("transfers") == load.purchases.count, sourceLocation: sourceLocation)
        #expect(try database.count("dead_letters") == 0, sourceLocation: sourceLocation)
    }

    @Test("kill -9 under load on a private cluster, three times: nothing acknowledged is missing")
    func killed() throws {
        let receivers = [try Receiver(), try Receiver(script: Self.oneInFive)]
        let relay = try Relay(
            [
                .init("steady", receivers[0], ["schedule": Self.manyGaps]),
                .init("shaky", receivers[1], ["schedule": Self.manyGaps]),
            ], storage: .privateCluster)
        defer { relay.end() }
        try relay.start()
        let load = FaultLoad("k", on: [relay.port])
        for _ in 0..<3 {
            #expect(load.waitForProgress(.random(in: 20...80)))
            relay.kill()
            try relay.start()
        }
        let tally = try #require(load.finish())
        let database = try relay.database
        #expect(try database.drained())

        for receiver in receivers { _ = Self.expectComplete(receiver, of: tally) }
        try Self.expectSound(database, of: tally)
        #expect(tally.unanswered > 0, "no kill met a request: the scenario has shown nothing")
    }
}
