import Testing
import Vocabulary

/// What Purchasely's signature must and must not let in (its page "Securing your webhook"; HMAC-SHA256 over
/// timestamp ++ raw body, lower-case hex). "Stores nothing" is asked of the database.
@Suite struct IngestSignatureTests {
    private static func isEmpty(_ database: Database) throws -> Bool {
        try ["events", "identities", "quarantine"].allSatisfy { try database.count($0) == 0 }
    }

    @Test("The vendor's published vector is authentic (and quarantined: it names no event)")
    func vector() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)], sources: [.init(secrets: ["foobar"])])
        defer { relay.end() }
        let body = Array(#"{"a_random_key":"a_random_value_ad"}"#.utf8)
        let signature = "f3c2a452e9ea72f41107321aeaf7999f1054148866a710c9b23f9f501785e2a4"
        let headers = [("X-PURCHASELY-TIMESTAMP", "1698322022"), ("X-PURCHASELY-REQUEST-SIGNATURE", signature)]
        let connection = relay.source().connect()
        #expect(try connection.insist(on: body, headers: headers).status == 200)
        #expect(try relay.database.count("quarantine") == 1)
        #expect(try relay.database.count("events") == 0)
        // The harness signs just so: its other signatures are worth as much as this one.
        #expect(Source.signature(body, secret: "foobar", timestamp: "1698322022") == signature)
    }

    @Test("One changed byte in body, timestamp or signature, a wrong secret, a missing header: 401, nothing stored")
    func oneByte() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let source = relay.source()
        let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_1").body
        let timestamp = "1768464000"
        let signature = Source.signature(body, secret: source.secret, timestamp: timestamp)
        let connection = source.connect()
        var wrong: [String] = []
        func expectRefusal(_ what: String, _ body: [UInt8], _ timestamp: String?, _ signature: String?) throws {
            var headers: [(String, String)] = []
            if let timestamp { headers.append(("X-PURCHASELY-TIMESTAMP", timestamp)) }
            if let signature { headers.append(("X-PURCHASELY-REQUEST-SIGNATURE", signature)) }
            let status = try connection.post(body, headers: headers).status
            if status != 401 { wrong.append("\(what): \(status)") }
        }
        for index in body.indices {
            var changed = body
            changed[index] ^= 1
            try expectRefusal("bit 0 of body byte \(index)", changed, timestamp, signature)
            guard index.isMultiple(of: 16) else { continue }
            changed = body
            changed.remove(at: index)
            try expectRefusal("body without byte \(index)", changed, timestamp, signature)
            changed = body
            changed.insert(UInt8(ascii: " "), at: index)
            try expectRefusal("a blank before body byte \(index)", changed, timestamp, signature)
        }
        try expectRefusal("a byte more", body + [UInt8(ascii: "\n")], timestamp, signature)
        try expectRefusal("no body", [], timestamp, signature)
        for index in timestamp.indices {
            var changed = timestamp
            changed.replaceSubrange(index...index, with: changed[index] == "9" ? "0" : "9")
            try expectRefusal("timestamp \(changed)", body, changed, signature)
        }
        for changed in ["0" + timestamp, timestamp + "0", timestamp + " 0", "+" + timestamp, "1e9", "-1", "", "x"] {
            try expectRefusal("timestamp '\(changed)'", body, changed, signature)
        }
        for index in signature.indices {
            var changed = signature
            changed.replaceSubrange(index...index, with: changed[index] == "0" ? "1" : "0")
            try expectRefusal("signature \(changed)", body, timestamp, changed)
        }
        let almost = [
            String(signature.dropLast()), signature + "0", signature + signature, "", "sha256=" + signature,
            String(repeating: "0", count: 64), String(repeating: "g", count: 64), "é",
        ]
        for changed in almost { try expectRefusal("signature '\(changed)'", body, timestamp, changed) }
        for secret in ["Source-secret", "source-secret ", "source-secre", "x", " source-secret"] {
            let other = Source.signature(body, secret: secret, timestamp: timestamp)
            try expectRefusal("secret '\(secret)'", body, timestamp, other)
        }
        try expectRefusal("no timestamp", body, nil, signature)
        try expectRefusal("no signature", body, timestamp, nil)
        try expectRefusal("neither", body, nil, nil)
        #expect(wrong == [])
        // Those behind the first of a second share an entry.
        let shared = " more requests to purchasely with 401 within a second"
        #expect(relay.waitForLine("level=warning", "refused ", shared) != nil)
        #expect(try Self.isEmpty(relay.database))
        // The deprecated header does not cover the body, so it proves nothing.
        let deprecated = [("X-PURCHASELY-TIMESTAMP", timestamp), ("X-PURCHASELY-SIGNATURE", signature)]
        #expect(try connection.post(body, headers: deprecated).status == 401)
        #expect(try Self.isEmpty(relay.database))
        #expect(receiver.count == 0)
        #expect(try source.post(body) == 200)
        #expect(receiver.waitForAccepted(1))
    }

    /// The vendor's scheme puts nothing between timestamp and body, so a digit can be moved from one to the other under
    /// the same signature. It gains nothing: a body that begins with a digit is no object, so never an event.
    @Test("A digit moved from the timestamp to the body makes no event")
    func movedBorder() throws {
        let relay = try Relay.running([.init("backend", Receiver())])
        defer { relay.end() }
        let source = relay.source()
        let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_1").body
        let signature = Source.signature(body, secret: source.secret, timestamp: "1768464000")
        let headers = [("X-PURCHASELY-TIMESTAMP", "176846400"), ("X-PURCHASELY-REQUEST-SIGNATURE", signature)]
        #expect(try source.connect().insist(on: [UInt8(ascii: "0")] + body, headers: headers).status == 200)
        #expect(try relay.database.count("events") == 0)
        #expect(try relay.database.count("quarantine") == 1)
    }

    @Test("While a secret is rotated both hold, and no third")
    func rotation() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)], sources: [.init(secrets: ["new one", "old one"])])
        defer { relay.end() }
        let webhooks = (1...3).map { Webhook("ACTIVATE", .user("u\($0)"), purchase: "subs_\($0)") }
        #expect(try relay.source(secret: "new one").post(webhooks[0]) == 200)
        #expect(try relay.source(secret: "old one").post(webhooks[1]) == 200)
        #expect(try relay.source(secret: "new oneold one").post(webhooks[2]) == 401)
        #expect(receiver.waitForAccepted(2))
        #expect(try relay.database.count("events") == 2)
    }

    @Test("A source with a freshness window refuses what was signed outside it; without one an old webhook is fine")
    func freshness() throws {
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver)],
            sources: [.init(), .init(name: "strict", settings: ["freshness": "\"5m\""])])
        defer { relay.end() }
        let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_1").body
        for (name, timestamp, expected) in [
            ("purchasely", "1500000000", 200), ("strict", "1500000000", 401), ("strict", "9500000000", 401),
        ] {
            let source = relay.source(name)
            let headers = source.signatureHeaders(body, timestamp: timestamp)
            #expect(try source.connect().insist(on: body, headers: headers).status == expected, "\(name) \(timestamp)")
        }
        #expect(try relay.source("strict").post(body) == 200)
    }

    @Test("A source without authentication says so and takes unsigned webhooks")
    func noAuthentication() throws {
        let receiver = try Receiver()
        let relay = try Relay.running(
            [.init("backend", receiver)], sources: [.init(settings: ["auth": "\"none\""])])
        defer { relay.end() }
        let body = Webhook("ACTIVATE", .user("u"), purchase: "subs_1").body
        #expect(try relay.source().connect().insist(on: body, headers: []).status == 200)
        #expect(receiver.waitForAccepted(1))
    }
}
