import Foundation
import Testing
import Vocabulary

/// SIGHUP: a new configuration holds without a request refused or an event lost; a broken one changes nothing.
@Suite struct ReloadTests {
    /// They last for a minute: a busy machine may stop this process while the daemon goes on.
    private static let manyGaps = "[" + Array(repeating: #""1s""#, count: 60).joined(separator: ", ") + "]"

    @Test("Under load: sources and integrations are added, changed, removed and brought back")
    func underLoad() throws {
        let first = try Receiver()
        let second = try Receiver()
        let relay = try Relay.running([.init("first", first)])
        defer { relay.end() }
        #expect(try relay.source("other").post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 404)
        let load = FaultLoad("load", on: [relay.port])
        #expect(load.waitForProgress(30))

        let other = Relay.SourceTable(name: "other", kind: "purchasely")
        try relay.configure(
            [
                .init(
                    "first", first,
                    ["headers": #"{ X-Reloaded = { file = "\#(try relay.directory.write("header", "yes"))" } }"#]),
                .init("second", second),
            ], sources: [.init(), other])
        let added = try relay.reload()
        for part in ["added integration second", "changed integration first", "added source other"] {
            #expect(added.contains(part), "\(added)")
        }
        #expect(try relay.source("other").post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(load.waitForProgress(30))
        #expect(second.waitForAccepted(10))

        try relay.configure([.init("first", first)], sources: [.init(), other])
        #expect(try relay.reload().contains("removed integration second"))
        // What is recorded from now on is not for it; a batch that was under way may have been, and end late.
        let ofSecond = "integration = (SELECT id FROM integrations WHERE name = 'second')"
        let isOver = try eventually {
            let waiting = try relay.database.count("deliveries", where: ofSecond)
            return try load.waitForProgress(60) && relay.database.count("deliveries", where: ofSecond) <= waiting
        }
        #expect(isOver)

        try relay.configure([.init("first", first), .init("second", second)], sources: [.init(), other])
        #expect(try relay.reload().contains("added integration second"))
        #expect(load.waitForProgress(30))
        let tally = try #require(load.finish())
        #expect(try relay.database.drained())

        #expect(tally.isServed(by: [relay]), "\(tally.refusals) \(tally.unanswered)")
        let receipts = FaultReceipts(first)
        #expect(receipts.missing(of: tally) == [] && receipts.duplicates(of: tally) == 0)
        #expect(FaultReceipts(second).duplicates == 0)
        #expect(try relay.database.notOnce(tally) == [])
        #expect(first.accepted.first?.request["x-reloaded"] == nil && first.accepted.last?.request["x-reloaded"] == nil)
        #expect(first.accepted.contains { $0.request["x-reloaded"] == "yes" })
    }

    @Test("What a removed integration still had to get waits until it is back")
    func removedWaits() throws {
        let receiver = try Receiver { _ in .status(500) }
        let other = try Receiver { $0.number < 5 ? .status(500) : .ok }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": Self.manyGaps])])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.wait { $0.count >= 2 })
        try relay.configure([.init("other", other, ["schedule": Self.manyGaps])])
        #expect(try relay.reload().contains("removed integration backend"))
        #expect(try eventually { try relay.database.count("deliveries", where: "leased_by IS NULL") == 1 })
        let seen = receiver.received.count
        receiver.answer { _ in .ok }
        // Five of the same gaps pass for the other one.
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_2")) == 200)
        #expect(other.waitForAccepted(1))
        #expect(receiver.received.count <= seen + 1 && receiver.accepted.isEmpty)
        try relay.configure([.init("backend", receiver, ["schedule": Self.manyGaps])])
        _ = try relay.reload()
        #expect(receiver.waitForAccepted(1))
        #expect(try relay.database.drained())
    }

    @Test("What the address before the reload answers 410 pauses nothing at the new one, nor after a removal")
    func goneAtTheFormerAddress() throws {
        let isReloaded = Monitor(false)
        let former = try Receiver { _ in
            _ = isReloaded.wait(300) { $0 }
            return .status(410)
        }
        let (second, third) = (try Receiver(), try Receiver())
        let patient = ["timeout": #""120s""#]
        let relay = try Relay.running([.init("backend", former, patient), .init("other", former, patient)])
        defer { relay.end() }
        defer { isReloaded.change { $0 = true } }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(former.wait { $0.count == 2 })
        // One has another address, the other one is removed.
        try relay.configure([.init("backend", second)])
        let reloaded = try relay.reload()
        #expect(reloaded.contains("changed integration backend") && reloaded.contains("removed integration other"))
        isReloaded.change { $0 = true }
        #expect(former.wait { $0.count { $0.answered == 410 } == 2 })
        #expect(second.waitForAccepted(1))
        #expect(second.accepted.first?.id == former.received.first?.id)
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_2")) == 200)
        #expect(second.waitForAccepted(2))
        #expect(try eventually { try relay.database.count("deliveries", where: "leased_by IS NOT NULL") == 0 })
        try relay.configure([.init("backend", second), .init("other", third)])
        #expect(try relay.reload().contains("added integration other"))
        #expect(third.waitForAccepted(1))
        #expect(try relay.database.drained())
        #expect(try relay.database.count("integrations", where: "paused_at IS NOT NULL") == 0)
    }

    @Test("What is asked before a pause and answered 410 after the resume pauses nothing, and is tried again at once")
    func goneBeforeTheResume() throws {
        let isResumed = Monitor(false)
        let receiver = try Receiver { request in
            switch request.number {
            case 0:
                _ = isResumed.wait(300) { $0 }
                return .status(410)
            case 1: return .status(410)
            default: return .ok
            }
        }
        let relay = try Relay.running([.init("backend", receiver, ["timeout": #""120s""#])])
        defer { relay.end() }
        defer { isResumed.change { $0 = true } }
        let source = relay.source()
        #expect(try source.post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.wait { $0.count == 1 })
        #expect(try source.post(Webhook("ACTIVATE", .user("v"), purchase: "subs_2")) == 200)
        #expect(relay.waitForLine("integration backend is paused") != nil)
        #expect(try relay.command("resume", "backend", "--config", relay.configuration).end == .exited(0))
        #expect(receiver.waitForAccepted(1))
        isResumed.change { $0 = true }
        #expect(receiver.waitForAccepted(2))
        let database = try relay.database
        #expect(try database.drained())
        #expect(try database.count("integrations", where: "paused_at IS NOT NULL") == 0)
        #expect(Set(receiver.accepted.map(\.id)) == Set(receiver.received.prefix(2).map(\.id)))
    }

    @Test("A purchase's order is asked for: what waits for a retry waits for what is before it")
    func orderTaken() throws {
        let receiver = try Receiver { _ in .status(500) }
        let none = ["schedule": #"["1h"]"#, "order": #""none""#]
        let relay = try Relay.running([.init("backend", receiver, none)])
        defer { relay.end() }
        let source = relay.source()
        #expect(try source.post(Webhook("SUBSCRIPTION_STARTED", .user("u"), purchase: "subs_1")) == 200)
        #expect(
            try source.post(Webhook("SUBSCRIPTION_RENEWED", .user("u"), purchase: "subs_1", at: Webhook.epoch + 9))
                == 200)
        #expect(receiver.wait { $0.count == 2 })
        let database = try relay.database
        #expect(try eventually { try database.count("deliveries", where: "leased_by IS NULL") == 2 })
        #expect(try database.count("deliveries", where: "blocked") == 0)
        try relay.configure([.init("backend", receiver, ["schedule": #"["1h"]"#])])
        #expect(try relay.reload().contains("changed integration backend"))
        #expect(try eventually { try database.count("deliveries", where: "blocked") == 1 })
        #expect(try database.count("deliveries", where: "blocked AND id = (SELECT max(id) FROM deliveries)") == 1)
    }

    @Test("A purchase's order is given up: what was held back goes at once")
    func orderGivenUp() throws {
        let receiver = try Receiver { request in
            request.number < 1_000 && request.type == "SUBSCRIPTION_STARTED" ? .status(500) : .ok
        }
        let relay = try Relay.running([.init("backend", receiver, ["schedule": #"["1h"]"#])])
        defer { relay.end() }
        let source = relay.source()
        #expect(try source.post(Webhook("SUBSCRIPTION_STARTED", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.wait { $0.count { $0.type == "SUBSCRIPTION_STARTED" } == 1 })
        #expect(
            try source.post(Webhook("SUBSCRIPTION_RENEWED", .user("u"), purchase: "subs_1", at: Webhook.epoch + 9))
                == 200)
        #expect(try relay.database.count("deliveries", where: "blocked") == 1)
        try relay.configure([.init("backend", receiver, ["schedule": #"["1h"]"#, "order": #""none""#])])
        #expect(try relay.reload().contains("changed integration backend"))
        #expect(receiver.wait { $0.contains { $0.type == "SUBSCRIPTION_RENEWED" && $0.isAccepted } })
    }

    @Test(
        "Another address, secret or header: what waits is tried at once; by hand, too, and only where it was asked for")
    func triedAtOnce() throws {
        let (broken, mended) = (try Receiver { _ in .status(500) }, try Receiver())
        let other = try Receiver { _ in .status(500) }
        let hour = ["schedule": #"["1h", "1h"]"#]
        let relay = try Relay.running([.init("backend", broken, hour), .init("other", other, hour)])
        defer { relay.end() }
        let c = relay.configuration
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(broken.wait { $0.count == 1 } && other.wait { $0.count == 1 })
        #expect(try eventually { try relay.database.count("deliveries", where: "leased_by IS NULL") == 2 })

        // What is no reason to fail tries nothing.
        try relay.configure([
            .init("backend", broken, hour.merging(["concurrency": "3"]) { $1 }), .init("other", other, hour),
        ])
        #expect(try !relay.reload().contains("due now"))
        try relay.configure([.init("backend", mended, hour), .init("other", other, hour)])
        let reloaded = try relay.reload()
        #expect(reloaded.contains("changed integration backend; due now: what waits for backend"), "\(reloaded)")
        #expect(mended.waitForAccepted(1))
        #expect(mended.accepted.first?.id == broken.received.first?.id)
        #expect(try eventually { try relay.database.count("deliveries") == 1 })

        #expect(other.received.count == 1)
        #expect(try relay.command("retry", "--config", c).end == .exited(64))
        #expect(try relay.command("retry", "--message", "msg_1", "--config", c).end == .exited(64))
        let unknown = try relay.command("retry", "othr", "--config", c)
        #expect(unknown.end == .exited(1) && unknown.errors.contains("known are: backend, other"), "\(unknown)")
        #expect(try relay.command("retry", "backend", "--config", c).output == "nothing waits for backend")
        let said = try relay.command("retry", "other", "--config", c)
        #expect(said.end == .exited(0) && said.output == "other: 1 due now", "\(said)")
        #expect(other.wait { $0.count == 2 })
        #expect(try eventually { try relay.database.value("SELECT attempts FROM deliveries") == "2" })
        other.answer { _ in .ok }
        #expect(try relay.command("pause", "other", "--config", c).end == .exited(0))
        let json = try relay.json("retry", "--message", try #require(mended.accepted.first?.id))
        #expect(json["made_due"] as? Int == 1)
        let one = try #require((json["integrations"] as? [[String: Any]])?.first)
        #expect(
            one["integration"] as? String == "other" && one["paused"] as? Bool == true && one["made_due"] as? Int == 1)
        #expect(try relay.command("resume", "other", "--config", c).end == .exited(0))
        #expect(other.waitForAccepted(1))
        #expect(try relay.database.drained())
    }

    @Test("Of an integration that is paused a reload says so, and not that what waits for it is due")
    func paused() throws {
        let (gone, mended) = (try Receiver { _ in .status(410) }, try Receiver())
        let relay = try Relay.running([.init("backend", gone)])
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(relay.waitForLine("integration backend is paused") != nil)
        try relay.configure([.init("backend", mended)])
        let changed = try relay.reload()
        #expect(changed.contains("changed integration backend; paused until posthouse resume: backend"), "\(changed)")
        #expect(!changed.contains("due now"), "\(changed)")
        // A few polls of the new lane: what the journal has already does not come again.
        func pauses() -> Int { relay.lines.count { $0.contains("integration backend is paused") } }
        #expect(!eventually(within: 3) { pauses() > 1 })
        try relay.configure([])
        #expect(try relay.reload().contains("removed integration backend"))
        try relay.configure([.init("backend", mended)])
        let added = try relay.reload()
        #expect(added.contains("added integration backend; paused until posthouse resume: backend"), "\(added)")
        #expect(try relay.command("resume", "backend", "--config", relay.configuration).end == .exited(0))
        #expect(mended.waitForAccepted(1))
    }

    @Test("With ca_file an integration is listed as changed where a value differs; else the file is read again")
    func authorities() throws {
        let receiver = try Receiver()
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let authority = try CertificateAuthority("authority", in: directory)
        let file = try directory.write("trusted.pem", authority.pem)
        let trusted = ["ca_file": "\"\(file)\""]
        let relay = try Relay.running([.init("backend", receiver, trusted)])
        defer { relay.end() }
        let same = try relay.reload()
        #expect(same.contains("nothing differs from the one before; ca_file read again: backend"), "\(same)")
        try relay.configure([.init("backend", receiver, trusted.merging(["concurrency": "3"]) { $1 })])
        let changed = try relay.reload()
        #expect(changed.contains("changed integration backend") && !changed.contains("read again"), "\(changed)")
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(1))
    }

    @Test("A broken file changes nothing and says what is wrong and where; what needs a restart is named")
    func broken() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let good = try String(contentsOfFile: relay.configuration, encoding: .utf8)
        try relay.directory.write("posthouse.toml", good.replacing("[journal]", with: "[journal]\ndetail_limt = 5"))
        let refused = try relay.reload()
        for part in ["cannot be used", "posthouse.toml:", "detail_limt", "detail_limit"] {
            #expect(refused.contains(part), "\(refused)")
        }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("u"), purchase: "subs_1")) == 200)
        #expect(receiver.waitForAccepted(1))
        try FileManager.default.removeItem(atPath: relay.configuration)
        #expect(try relay.reload().contains("cannot be read"))
        try relay.directory.write(
            "posthouse.toml",
            good.replacing("[journal]", with: "[retention]\nattempts = \"40d\"\n[journal]\ndetail_limit = 5"))
        let changed = try relay.reload()
        #expect(changed.contains("changed [journal]; changed [retention]"), "\(changed)")
        let other = try Socket.freePort()
        try relay.directory.write(
            "posthouse.toml", good.replacingOccurrences(of: ":\(relay.port)", with: ":\(other)"))
        let due = try relay.reload()
        #expect(due.contains("due at the next restart: [server] listen"), "\(due)")
        #expect(try eventually { try relay.get("/readyz").status == 200 })
        #expect(relay.processIdentifier != nil)
    }
}
