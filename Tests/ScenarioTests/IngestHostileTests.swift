import Foundation
import Testing
import Vocabulary

/// Authentic bodies that are not what they should be. The rule (Architecture.md, "Acknowledgement"): 200, because the
/// source must not come again; kept byte for byte in quarantine, and nothing else happens.
@Suite struct IngestHostileTests {
    private static func good(_ number: Int) -> Webhook {
        Webhook("ACTIVATE", .user("user-\(number)"), purchase: "subs_\(number)")
    }

    /// A good body with one text replaced.
    private static func changed(_ from: String, _ to: String) -> [UInt8] {
        let text = String(decoding: good(1).body, as: UTF8.self)
        return Array(text.replacingOccurrences(of: from, with: to).utf8)
    }

    private static let holder = #""user_id":"user-1""#

    private static let nested = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)

    private static let unreadable: [(String, [UInt8])] = [
        ("empty", []), ("not JSON", Array("event=ACTIVATE&user_id=1".utf8)), ("an array", Array("[]".utf8)),
        ("a string", Array(#""ACTIVATE""#.utf8)), ("no members", Array("{}".utf8)),
        ("100 kB of [", [UInt8](repeating: UInt8(ascii: "["), count: 100_000)),
        ("nested too deep", changed(#""event_name""#, "\"x\":\(nested),\"event_name\"")),
        ("cut short", good(1).body.dropLast()), ("something behind it", good(1).body + Array("{}".utf8)),
        ("a raw NUL in an id", changed("user-1", "us\u{0}er")),
        ("an escaped NUL in an id", changed("user-1", #"us\u0000er"#)),
        ("an escaped NUL in the purchase", changed("subs_1", #"subs\u0000"#)),
        ("a line feed in an id", changed("user-1", "us\ner")),
        ("a lone surrogate in an id", changed("user-1", #"\ud800"#)),
        ("invalid UTF-8", Array(good(1).body.dropLast()) + Array(#","x":""#.utf8) + [0xc3, 0x28, 0x22, 0x7d]),
        ("a byte order mark", [0xef, 0xbb, 0xbf] + good(1).body),
        ("UTF-16", Array(String(decoding: good(1).body, as: UTF8.self).data(using: .utf16LittleEndian) ?? Data())),
        ("an id twice", changed(holder, holder + #","user_id":"another""#)),
        ("the event name twice", changed(holder, holder + #","event_name":"DEACTIVATE""#)),
        ("a key twice, once escaped", changed(holder, holder + #","user\u005fid":"another""#)),
        ("a key twice, deep inside", changed(holder, holder + #","x":{"a":1,"a":2}"#)),
        ("no holder", changed(holder, #""x":1"#)),
        ("an empty holder", changed(holder, #""user_id":"""#)), ("a null holder", changed(holder, #""user_id":null"#)),
        ("two holders", changed(holder, holder + #","anonymous_user_id":"a""#)),
        ("a holder that is an object", changed(holder, #""user_id":{"id":"user-1"}"#)),
        ("a holder of a megabyte", changed("user-1", String(repeating: "u", count: 60_000))),
        ("a holder a byte too long", changed("user-1", String(repeating: "u", count: 1_025))),
        ("a purchase that is too long", changed("subs_1", String(repeating: "s", count: 1_025))),
        ("no event name", changed(#""event_name":"ACTIVATE","#, "")),
        ("no event time", changed("event_created_at", "x")),
        ("an event time out of this world", changed("\(Webhook.epoch),", "99999999999999999,")),
        ("a name that is a number", changed(#""ACTIVATE""#, "5")),
    ]

    @Test("Authentic and unreadable: 200, quarantined byte for byte; a good event still works")
    func quarantine() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        let database = try relay.database
        let connection = relay.source().connect()
        for (what, body) in Self.unreadable {
            #expect(try connection.insist(on: body).status == 200, "\(what)")
        }
        // The same body again is the same trouble, not another.
        for (what, body) in Self.unreadable.prefix(3) {
            #expect(try connection.insist(on: body).status == 200, "\(what) again")
        }
        let kept = try database.rows("SELECT encode(body, 'hex'), reason FROM quarantine")
        let hex = Dictionary(kept.map { ($0[0], $0[1]) }, uniquingKeysWith: { first, _ in first })
        for (what, body) in Self.unreadable {
            let reason = hex[body.map { String(format: "%02x", $0) }.joined()]
            #expect(reason?.isEmpty == false, "\(what) is not in quarantine")
        }
        #expect(kept.count == Self.unreadable.count)
        #expect(try database.count("events") == 0)
        #expect(try database.count("purchases") == 0)
        #expect(relay.waitForLine("quarantined", "outcome=quarantined") != nil)
        #expect(receiver.count == 0)
        #expect(try connection.insist(on: Self.good(1).body).status == 200)
        #expect(receiver.waitForAccepted(1))
    }

    @Test("What is odd and still has an envelope is passed on, byte for byte")
    func passedOn() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver, ["format": "\"source\"", "order": "\"none\""])])
        defer { relay.end() }
        let long = String(repeating: "u", count: 1_024)
        let number = "123456789012345678901234567890"
        let odd: [(String, [UInt8], String)] = [
            ("an unknown name", Self.changed("ACTIVATE", "SOMETHING_NEW_IN_2031"), "user-1"),
            ("a number id, digit for digit", Self.changed(#""user-1""#, number), number),
            ("an id of the longest length", Self.changed("user-1", long), long),
            ("an id with quotes and a backslash", Self.changed("user-1", #"a\"b\\c'd"#), #"a"b\c'd"#),
            ("an id with all the planes", Self.changed("user-1", "é\u{301}漢😀"), "é\u{301}漢😀"),
            ("an id that is SQL", Self.changed("user-1", "'); DROP TABLE events; --"), "'); DROP TABLE events; --"),
            (
                "blanks and line feeds", Array(" \n".utf8) + Self.changed(#"":""#, "\" :\n\t\"") + [0x0d, 0x0a],
                "user-1"
            ),
            ("fields of other types", Self.changed(#""premium_monthly""#, #"{"a":[1,2.5e300,null]}"#), "user-1"),
        ]
        let connection = relay.source().connect()
        for (number, (what, body, _)) in odd.enumerated() {
            let text = String(decoding: body, as: UTF8.self)
            let own = Array(text.replacingOccurrences(of: "subs_1", with: "subs_odd\(number)").utf8)
            #expect(try connection.insist(on: own).status == 200, "\(what)")
        }
        #expect(receiver.waitForAccepted(odd.count))
        let database = try relay.database
        #expect(try database.count("quarantine") == 0)
        let holders = try database.rows("SELECT holder FROM events ORDER BY id").map { $0[0] }
        #expect(holders.map { Array($0.utf8) } == odd.map { Array("user:\($0.2)".utf8) })
        for (number, (what, body, _)) in odd.enumerated() {
            let text = String(decoding: body, as: UTF8.self)
            let own = Array(text.replacingOccurrences(of: "subs_1", with: "subs_odd\(number)").utf8)
            #expect(receiver.received.contains { $0.body == own && $0.isVerified }, "\(what)")
        }
    }

    @Test("Unknown paths, wrong methods, bodies over the limit: refused with their status, nothing stored")
    func refused() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)], settings: "max_body = \"32KiB\"")
        defer { relay.end() }
        let body = Self.good(1).body
        let source = relay.source()
        let headers = source.signatureHeaders(body)
        let client = HTTPClient(port: relay.port)
        #expect(try client.request("POST", "/ingest/other", headers: headers, body: body).status == 404)
        #expect(try client.request("POST", "/ingest/", headers: headers, body: body).status == 404)
        #expect(try client.request("POST", "/ingest/purchasely/more", headers: headers, body: body).status == 404)
        #expect(try client.request("POST", "/", headers: headers, body: body).status == 404)
        let long = String(repeating: "x", count: 5_000)
        #expect(try client.request("POST", "/ingest/\(long)", headers: headers, body: body).status == 404)
        // A mistyped URL at the platform shows in the journal, with what it should have been, and in a count.
        for said in ["other", "purchasely/more", "\(long.prefix(64))…"] {
            #expect(relay.waitForLine("an unknown source with 404", "is named \\\"\(said)\\\"", ": purchasely") != nil)
        }
        #expect(try relay.get("/metrics").text.contains(#"posthouse_refused_total{source="",status="404"} 4"#))
        for method in ["GET", "PUT", "DELETE", "PATCH"] {
            let answer = try client.request(method, source.path, headers: headers)
            #expect(answer.status == 405, "\(method)")
            #expect(answer["allow"] == "POST", "\(method)")
        }
        let large = [UInt8](repeating: UInt8(ascii: " "), count: 32 << 10) + body
        #expect(try source.post(large) == 413)
        let database = try relay.database
        #expect(try database.count("events") == 0)
        #expect(try database.count("quarantine") == 0)
        let padded = [UInt8](repeating: UInt8(ascii: " "), count: (32 << 10) - body.count) + body
        #expect(try source.post(padded) == 200)
        #expect(receiver.waitForAccepted(1))
    }

    @Test("The same event key with other bytes is a duplicate, logged once in the journal")
    func differingDuplicate() throws {
        let receiver = try Receiver()
        let relay = try Relay.running([.init("backend", receiver)])
        defer { relay.end() }
        var first = Self.good(1)
        first.eventID = "0c1a2b3c-1111-4222-8333-444455556666"
        var second = first
        second.renewsAt = second.renewsAt.map { $0 + 1 }
        #expect(try relay.source().post(first) == 200)
        for _ in 0..<3 { #expect(try relay.source().post(second) == 200) }
        #expect(try relay.source().post(Self.good(2)) == 200)
        #expect(receiver.waitForAccepted(2))
        #expect(try relay.database.drained())
        #expect(receiver.count == 2)
        // The two are of two purchases: either may arrive first.
        #expect(receiver.received.contains { $0.data["event_id"] as? String == first.eventID })
        #expect(relay.waitForLine("arrived again with other bytes") != nil)
        #expect(relay.lines.count { $0.contains("arrived again with other bytes") } == 1)
    }
}
