import Testing
import Vocabulary

@testable import Ledger

/// One shared purchase, its state written and read again between the steps, as the database does: after each of the
/// first, then after every eighth.
struct SharedPlayback {
    private var steps = 0
    private(set) var state = PurchaseState()
    private(set) var announced: [AnnouncedTransfer] = []
    /// As the table `entitlements` has it: what is not stated again stays.
    private(set) var access: [Holder: Access] = [:]
    private(set) var bytesMost = 0
    /// All changes that were stated, as `holder_changes` keeps them.
    private(set) var changes: [HolderChangeRow] = []

    init(_ state: PurchaseState = PurchaseState()) { self.state = state }

    mutating func apply(_ resolution: Resolution) throws {
        steps += 1
        state = resolution.state
        if steps <= 100 || steps % 8 == 0 {
            let bytes = state.bytes
            #expect(try PurchaseState(bytes: bytes) == state)
            bytesMost = max(bytesMost, bytes.count)
        }
        announced += resolution.announced
        access.merge(resolution.access) { _, new in new }
    }

    /// A webhook: afterwards everything that was stated of the purchase's holders is applied again.
    mutating func play(_ facts: Fact...) throws {
        try apply(SharedOwnership.resolve(state, facts))
        try applyAll()
    }

    mutating func play(_ change: HolderChangeRow) throws {
        changes.insert(change, at: changes.firstIndex { $0.at > change.at } ?? changes.endIndex)
        try applyAll()
    }

    mutating func apply(_ change: HolderChangeRow) throws {
        if let resolution = SharedOwnership.apply(change, to: state) { try apply(resolution) }
    }

    private mutating func applyAll() throws {
        for change in changes { try apply(change) }
    }

    var active: Set<Holder> { Set(access.filter(\.value.isActive).keys) }
    var isAnnouncedOnce: Bool { Set(announced).count == announced.count }
}

extension HolderChangeRow {
    static func sample(
        _ kind: Kind, _ subject: String, to target: Holder, _ second: Holder? = nil, at: Timestamp
    ) -> HolderChangeRow {
        HolderChangeRow(
            scope: Scope(source: "shared", app: "", environment: "PRODUCTION"), subject: subject, kind: kind,
            target: target, secondTarget: second, at: at)
    }

    static func restore(_ install: Holder, _ identity: Holder? = nil, _ kind: Kind = .transfer, at: Int64) -> Self {
        sample(kind, transactionSubject("t"), to: install, identity, at: seconds(at))
    }

    static func identify(_ install: Holder, _ identity: Holder, at: Int64) -> Self {
        sample(.share, install.storageKey, to: identity, at: seconds(at))
    }
}

func device(_ number: Int) -> Holder {
    .anonymous("device-\(number)-6837C35A-949B-4489-B212-62F66ACA6CC2-of-a-customer")
}

/// The state of a shared purchase stays small and readable whatever its holders do.
@Suite("A purchase that several hold together")
struct SharedOwnershipTests {
    /// Beyond every limit of the state; deploy/torture hot goes further.
    private static let steps = 1_000

    @Test("Two devices that restore in turn, with renewals between or without: readable, counted, once each")
    func inTurn() throws {
        for renewals in [false, true] {
            var playback = SharedPlayback()
            try playback.play(.activate(device(0), seconds(0), until: seconds(100)))
            for step in 1...Self.steps {
                let restore = HolderChangeRow.restore(device(step % 2), at: Int64(step) * 100)
                try playback.apply(restore)
                let state = playback.state
                try playback.apply(restore)
                #expect(playback.state == state)
                if renewals {
                    try playback.play(.activate(device(step % 2), seconds(Int64(step) * 100 + 10)))
                    try playback.apply(restore)
                }
                if !playback.isBounded { Issue.record("step \(step): \(playback.state)"); return }
            }
            #expect(playback.announced.count == Self.steps && playback.isAnnouncedOnce)
            #expect(playback.active == [device(0)])
            #expect(playback.state.announced.map(\.lastOrdinal) == [Self.steps / 2, Self.steps / 2])
            print("restores in turn, renewals \(renewals): \(playback.bytesMost) bytes at most")
        }
    }

    @Test("Three hundred devices that restore in turn: bounded; nobody who was forgotten keeps access")
    func manyDevices() throws {
        for kind in [HolderChangeRow.Kind.transfer, .copy] {
            var playback = SharedPlayback()
            try playback.play(.activate(device(0), seconds(0)))
            for step in 1...Self.steps {
                try playback.apply(.restore(device(step % 300), nil, kind, at: Int64(step) * 100))
                if !playback.isBounded { Issue.record("step \(step)"); return }
            }
            #expect(playback.announced.count == (kind == .transfer ? Self.steps : 0) && playback.isAnnouncedOnce)
            let registers = Set(playback.state.registers.map(\.holder))
            #expect(registers.count == PurchaseState.registersMax && playback.active.isSubset(of: registers))
            #expect(playback.active.count == (kind == .transfer ? 1 : PurchaseState.registersMax))
            print("restores of 300 devices, \(kind): \(playback.bytesMost) bytes at most")
        }
    }

    @Test("Restores of a day applied again and again announce nothing, even those whose natives went")
    func again() throws {
        for devices in [2, 5, 60] {
            var playback = SharedPlayback()
            try playback.play(.activate(device(0), seconds(0)))
            for step in 1...120 { try playback.play(.restore(device(step % devices), at: Int64(step) * 100)) }
            #expect(playback.announced.count == 120 && playback.isAnnouncedOnce, "\(devices)")
            let access = playback.active
            for step in 0..<20 { try playback.play(.activate(device(120 % devices), seconds(20_000 + Int64(step)))) }
            #expect(playback.announced.count == 120 && playback.active == access, "\(devices)")
        }
    }

    @Test("One purchase with two thousand holders, webhook by webhook: bounded")
    func manyHolders() throws {
        var playback = SharedPlayback()
        // Every second one comes late.
        for step in 1...Self.steps {
            let at = Int64(step % 2 == 0 ? step : Self.steps - step)
            try playback.play(.activate(device(step), seconds(at)), .activate(.user("u-\(step)"), seconds(at)))
            if !playback.isBounded { Issue.record("step \(step)"); return }
        }
        #expect(playback.active == Set(playback.state.registers.map(\.holder)))
        #expect(playback.active.count == PurchaseState.registersMax)
        print("holders of a shared purchase: \(playback.bytesMost) bytes at most")
    }

    @Test("A thousand webhooks of one shared purchase leave two lines a holder")
    func webhooks() throws {
        var playback = SharedPlayback()
        for step in 1...Self.steps {
            let at = seconds(Int64(step) * 86_400 * 30)
            try playback.play(.activate(device(0), at), .activate(user, at))
            try playback.play(.deactivate(device(0), at.advanced(byMilliseconds: 1_000)))
        }
        #expect(playback.state.facts.count == 2 && playback.state.registers.count == 2 && playback.active == [])
        print("webhooks of a shared purchase: \(playback.bytesMost) bytes at most")
    }

    @Test("A state that version 0.1.0 wrote, which it could not read: it goes on, and is in order after a restore")
    func healed() throws {
        let holders = [device(0), device(1)].map(\.storageKey)
        var text = "1\n"
        for (index, holder) in holders.enumerated() {
            text += "fact\t\(index * 10)\tgain\t\(index * 10)\t-\t\(holder)\n"
        }
        for index in 0..<32 {
            text += "native\t\(1_000 + index)\ttransferred\t\(holders[index % 2])\t\(holders[1 - index % 2])\n"
        }
        for (index, holder) in holders.enumerated() {
            text += "register\t1031\t\(index == 0 ? "on" : "off")\tfree\t\(holder)\n"
        }
        for (index, holder) in holders.enumerated() {
            text += "told\t35\t0\t0\t0\t\t\(holder)\t\(holders[1 - index])\n"
        }
        #expect(throws: PurchaseState.Unreadable.self) { try PurchaseState(bytes: Array(text.utf8)) }
        let damaged = try PurchaseState(bytes: Array((text + "period\t500\ton\n").utf8))
        var playback = SharedPlayback(damaged)
        try playback.play(.activate(device(0), Timestamp(milliseconds: 2_000)))
        #expect(playback.announced == [] && playback.active == [device(0)])
        try playback.apply(.sample(.transfer, "txn:t", to: device(1), at: Timestamp(milliseconds: 3_000)))
        #expect(playback.announced.map(\.ordinal) == [36] && playback.active == [device(1)])
        try playback.apply(.sample(.transfer, "txn:t", to: device(0), at: Timestamp(milliseconds: 4_000)))
        #expect(playback.state.announced.map(\.settledTransferred) == [20, 20])
        // Whoever makes the source exclusive afterwards announces nothing that was announced.
        let exclusive = TransferResolution.resolve(
            damaged, .activate(device(0), Timestamp(milliseconds: 5_000)), kind: .subscription)
        #expect(
            exclusive.announced == []
                && exclusive.state.announced.allSatisfy { $0.voided.count <= PurchaseState.voidedMax })
    }

    @Test("A damaged count of a shared purchase announces nothing from thin air")
    func damagedCount() throws {
        let pair = "user:a\tuser:b\nperiod\t1\ton\n"
        #expect(throws: PurchaseState.Unreadable.self) {
            try PurchaseState(bytes: Array("1\ntold\t5\t0\t9\t0\t\t\(pair)".utf8))
        }
        #expect(throws: PurchaseState.Unreadable.self) {
            try PurchaseState(bytes: Array("1\ntold\t1000000001\t0\t0\t0\t\t\(pair)".utf8))
        }
        let high = try PurchaseState(bytes: Array("1\ntold\t1000000000\t0\t0\t0\t\t\(pair)".utf8))
        let facts: [Fact] = [.activate(.user("a"), seconds(0)), .activate(.user("b"), seconds(10))]
        var playback = SharedPlayback(high)
        for fact in facts { try playback.play(fact) }
        #expect(playback.announced == [])
        // Nor where the source has become exclusive since, nor is memory taken by the count.
        var state = high
        for fact in facts {
            let resolution = TransferResolution.resolve(state, fact, kind: .subscription)
            #expect(resolution.announced == [])
            state = resolution.state
        }
        #expect(state.announced[0].voided.count == PurchaseState.voidedMax)
    }
}

extension SharedPlayback {
    var isBounded: Bool {
        bytesMost <= PurchaseState.bytesMax && state.natives.count <= PurchaseState.nativesMax
            && state.registers.count <= PurchaseState.registersMax && state.announced.count <= PurchaseState.pairsMax
            && state.facts.count <= state.registers.count
    }
}
