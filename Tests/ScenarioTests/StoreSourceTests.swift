import Foundation
import Testing
import Vocabulary

/// A source that is a store itself, whose webhooks are sealed. Oracle: the samples of `posthouse send`, and what the
/// database and the receivers have.
@Suite struct StoreSourceTests {
    private static let ada = "0a1b2c3d-0000-4000-8000-00000000000a"
    private static let ben = "0a1b2c3d-0000-4000-8000-00000000000b"

    /// Certificates of this test, and what is sent under them.
    private final class Store {
        let directory: ScratchDirectory
        /// The line that a source needs.
        private(set) var roots = ""

        init() throws {
            directory = try ScratchDirectory()
            let printed = try send("DID_RENEW", StoreSourceTests.ada, to: 9, "--print")
            #expect(printed.errors.first?.hasPrefix("made the certificates in ") == true && printed.output.count == 1)
            let line = try #require(printed.errors.first)
            roots = String(try #require(line.firstMatch(of: /roots = (\["sha256:[0-9a-f]{64}"\])$/)).output.1)
        }

        var source: Relay.SourceTable {
            let settings = ["bundle_ids": #"["com.example.app"]"#, "roots": roots]
            return .init(name: "s", kind: "apple", secrets: [], settings: settings)
        }

        @discardableResult
        func send(
            _ event: String, _ user: String, to port: UInt16, chain: String = "own", _ more: String...
        ) throws -> ChildProcess {
            let words = [
                try Relay.binary.get(), "send", "--url", "http://127.0.0.1:\(port)/ingest/s", "--kind", "apple",
                "--event", event, "--user", user, "--purchase", "o-1", "--chain", "\(directory.path)/\(chain)",
            ]
            var child = try ChildProcess(words + more)
            #expect(child.waitForEnd(180) != nil)
            // A busy machine may have no time for it.
            for _ in 0..<5 where child.errors.contains(where: { $0.contains("was answered 503") }) {
                child = try ChildProcess(words + more)
                #expect(child.waitForEnd(180) != nil)
            }
            return child
        }
    }

    @Test("send makes certificates; only a source that has their root and the app takes what they sign")
    func certificates() throws {
        let store = try Store()
        let relay = try Relay.running([], sources: [store.source])
        defer { relay.end() }
        let own = try store.send("SUBSCRIBED/INITIAL_BUY", Self.ada, to: relay.port)
        #expect(own.output == ["SUBSCRIBED/INITIAL_BUY was answered 200"], "\(own.errors)")
        #expect(own.errors.first?.hasPrefix("found the certificates in ") == true)
        let foreign = try store.send("SUBSCRIBED/INITIAL_BUY", Self.ada, to: relay.port, chain: "foreign")
        #expect(foreign.errors.contains { $0.contains("answered 401") && $0.contains("roots") }, "\(foreign.errors)")
        let otherApp = try store.send("DID_RENEW", Self.ada, to: relay.port, "--bundle-id", "com.example.other")
        #expect(otherApp.errors.contains { $0.contains("answered 401") && $0.contains("bundle_ids") })
        #expect(try relay.database.count("events", where: "holder = 'user:\(Self.ada)'") == 1)
        #expect(try relay.database.count("events") == 1 && relay.database.count("quarantine") == 0)
    }

    @Test("check warns of another account_token before it is in force, the journal at the reload")
    func otherNaming() throws {
        let store = try Store()
        let relay = try Relay.running([], sources: [store.source])
        defer { relay.end() }
        try store.send("SUBSCRIBED/INITIAL_BUY", Self.ada, to: relay.port)
        #expect(try relay.database.count("events", where: "holder = 'user:\(Self.ada)'") == 1)
        #expect(try !relay.command("check", "--config", relay.configuration).errors.contains("account_token"))
        _ = try relay.reload()
        var other = store.source
        other.settings["account_token"] = "\"anonymous\""
        try relay.configure([], sources: [other])
        let checked = try relay.command("check", "--config", relay.configuration)
        #expect(checked.end == .exited(0) && checked.errors.contains("source s: by account_token"), "\(checked.errors)")
        #expect(!relay.lines.contains { $0.contains("account_token") }, "nothing has changed yet")
        _ = try relay.reload()
        #expect(relay.waitForLine("source s: account_token was", "announced as a transfer") != nil)
        _ = try relay.reload()
        #expect(relay.lines.count(where: { $0.contains("account_token was") }) == 1, "said once")
    }

    @Test("What is sealed is delivered in clear beside its own bytes; a transfer is standard in either format")
    func formats() throws {
        let (standard, native) = (try Receiver(), try Receiver())
        let store = try Store()
        let relay = try Relay.running(
            [.init("standard", standard), .init("native", native, ["format": "\"source\""])], sources: [store.source])
        defer { relay.end() }
        for (event, user) in [
            ("SUBSCRIBED/INITIAL_BUY", Self.ada), ("DID_RENEW", Self.ben), ("RENEWAL_EXTENSION/SUMMARY", Self.ada),
        ] {
            let sent = try store.send(event, user, to: relay.port)
            #expect(sent.output.first?.hasPrefix("\(event) was answered 200") == true, "\(sent.errors)")
        }
        #expect(try relay.database.drained())
        let types = ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED", "RENEWAL_EXTENSION/SUMMARY"]
        #expect(Set(standard.received.map(\.type)).isSuperset(of: types), "\(standard.received.map(\.type))")
        for message in standard.received {
            let decoded = try #require(message.data["decoded"] as? [String: Any])
            let original = try #require(message.data["original"] as? [String: Any])
            #expect(decoded["notificationType"] is String && Set(original.keys) == ["signedPayload"])
            guard message.type == "RENEWAL_EXTENSION/SUMMARY" else { continue }
            #expect(message.data["holder"] is NSNull && message.data["purchase"] is NSNull)
        }
        let derived = native.received.filter { $0.json["signedPayload"] == nil }
        #expect(derived.map(\.type).sorted() == ["SUBSCRIPTION_RECEIVED", "SUBSCRIPTION_TRANSFERRED"])
        #expect(derived.allSatisfy { $0.isVerified && $0.data["decoded"] != nil && $0.data["transfer"] != nil })
        #expect(native.received.count == standard.received.count && native.received.count > derived.count)
        #expect(try relay.database.count("events", where: "holder = '' AND purchase IS NULL") == 1)
        let events = try relay.json("events")["events"] as? [[String: Any]] ?? []
        #expect(events.count(where: { $0["holder"] is NSNull }) == 1, "\(events)")
    }

    /// Oracle: Apple's pages `notificationType` and `status`: the transaction is the refunded one, the status that of
    /// the subscription.
    @Test("A refund of the plan before leaves the product and the access of the running one, in either order")
    func refundOfFormerPlan() throws {
        let store = try AppStore()
        let relay = try Relay.running([], sources: [store.source])
        defer { relay.end() }
        let (start, day) = (Webhook.epoch, Webhook.day)
        for (purchase, order) in [("7100001", [0, 1]), ("7100002", [1, 0])] {
            let former = AppStore.Period(
                purchase: purchase, number: 0, start: start, end: start + 365 * day, product: "plus.yearly")
            let running = AppStore.Period(purchase: purchase, number: 1, start: start + day, end: start + 31 * day)
            let bodies = [
                try store.notification(
                    "DID_RENEW", id: "renewal-\(purchase)", at: start + day + 5_000, running, token: Self.ada,
                    status: 1, isRefunded: false),
                try store.notification(
                    "REFUND", id: "refund-\(purchase)", at: start + 2 * day, former, token: Self.ada, status: 1,
                    isRefunded: true),
            ]
            for index in order { #expect(try relay.post("apple", [], bodies[index]) == 200) }
        }
        let products = try relay.database.rows("SELECT key, product FROM purchases ORDER BY key")
        #expect(products == [["7100001", "plus.weekly"], ["7100002", "plus.weekly"]])
        let access = ["user:\(Self.ada)": true]
        #expect(try relay.database.access().mapValues { $0.filter(\.value) } == ["7100001": access, "7100002": access])
    }

    @Test("trace and quarantine show say what is sealed, and erase finds a person in it")
    func inClear() throws {
        let store = try Store()
        let relay = try Relay.running([], sources: [store.source])
        defer { relay.end() }
        // Authentic, and its name is longer than a name may be.
        let long = String(repeating: "N", count: 2_000)
        for (event, user) in [("SUBSCRIBED/INITIAL_BUY", Self.ada), ("DID_RENEW", Self.ben), (long, Self.ada)] {
            let sent = try store.send(event, user, to: relay.port)
            #expect(sent.output.first?.hasPrefix("\(event) was answered 200") == true, "\(sent.errors)")
        }
        #expect(try relay.database.count("quarantine") == 1)
        let size = try relay.database.value("SELECT octet_length(body) FROM events WHERE name = 'DID_RENEW'")
        func say(_ words: String...) throws -> (output: [String], errors: [String]) {
            let (child, end) = try Relay.run(words + ["--config", relay.configuration])
            #expect(end == .exited(0), "\(words): \(child.errors)")
            return (child.output, child.errors)
        }
        let trace = try say("trace", "--user", Self.ben)
        let line = try #require(trace.output.first { $0.contains("sealed in \(size) bytes: {") })
        #expect(line.contains(#""notificationType":"DID_RENEW""#) && line.contains(Self.ben), "\(line)")
        let webhooks = try relay.json("trace", "--user", Self.ben)["webhooks"] as? [[String: Any]]
        let webhook = try #require(webhooks?.first)
        #expect(webhook["original_bytes"] as? Int == Int(size))
        let decoded = try #require(webhook["decoded"] as? [String: Any])
        let transaction = (decoded["data"] as? [String: Any])?["transactionInfo"] as? [String: Any]
        #expect(transaction?["appAccountToken"] as? String == Self.ben)

        let shown = try say("quarantine", "show", "1")
        #expect(shown.output.count == 1 && shown.output[0].contains(long) && shown.output[0].contains(Self.ada))
        #expect(shown.errors.contains { $0.hasPrefix("sealed in ") && $0.contains("--original") }, "\(shown.errors)")
        let original = try say("quarantine", "show", "1", "--original")
        #expect(original.output.first?.hasPrefix(#"{"signedPayload":"eyJ"#) == true)
        let kept = try relay.json("quarantine", "show", "1")
        #expect(kept["decoded"] is [String: Any] && kept["body"] as? String == original.output.first)

        // As somebody writes the id who has it from a device.
        let erased = try say("erase", "--user", Self.ada.uppercased())
        #expect(erased.output.last == "searched again: nothing is left", "\(erased.output) \(erased.errors)")
        #expect(try relay.database.value("SELECT string_agg(holder, ' ') FROM events") == "user:\(Self.ben)")
        #expect(try relay.database.count("quarantine") == 0)
        // Ben's is as it came, and is still about the purchase.
        #expect(
            try relay.database.value("SELECT octet_length(body) FROM events") == size
                && relay.database.value("SELECT key FROM purchases") == "o-1")
    }
}
