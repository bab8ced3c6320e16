import Foundation
import Testing
import Vocabulary

/// An export of all kinds of source, imported into an empty ledger in the midst of their histories. Oracle: what the
/// first ledger answers and stores, then and when the same webhooks have followed on both; and the access of the
/// histories.
@Suite struct ExportKindsTests {
    /// A webhook, and for Google's what its API answers from then on.
    private struct Arrival {
        let source: String
        let body: String
        var answers: [(token: String, answer: Google.Answer)] = []

        /// Made as it is sent, for some hold for minutes only.
        var headers: [(String, String)] {
            get throws {
                switch source {
                case "play": return try Google.authorization()
                case "stripe": return Stripe.signature(of: Array(body.utf8))
                default:
                    let sender = ExportKindsTests.senders.first { $0.kind == source }
                    return sender?.prove(body, ExportKindsTests.secret(of: source)) ?? []
                }
            }
        }
    }

    private static let senders = SourceTests.senders.filter(\.settings.isEmpty)

    private static func secret(of kind: String) -> String {
        kind == "sessions" ? "whsec_" + Data(repeating: 7, count: 32).base64EncodedString() : "the-secret-text"
    }

    private static func arrivals(_ histories: [StoreHistory]) -> (first: [Arrival], second: [Arrival]) {
        var (first, second): ([Arrival], [Arrival]) = ([], [])
        for sender in senders {
            first.append(Arrival(source: sender.kind, body: sender.purchase("PRODUCTION")))
        }
        for (number, history) in histories.enumerated() {
            let moments = history.play?.moments(Array(history.notices.indices))
            for (position, notice) in history.notices.enumerated() {
                let answers = moments.flatMap { history.play?.answers(at: $0[position]) } ?? []
                let arrival = Arrival(source: history.source, body: notice.body, answers: answers)
                // Each history is cut at another place.
                if position <= number % history.notices.count { first.append(arrival) } else { second.append(arrival) }
            }
        }
        return (first, second)
    }

    /// All that answers and later webhooks depend on.
    /// - Parameter started: milliseconds since 1970 before Google's API was asked anything.
    private static func picture(_ relay: Relay, _ people: [String], since started: Int64) throws -> Set<String> {
        // The first line of a state has the checksum of the others; a line's fields become columns.
        let rows = try relay.database.rows(
            """
            SELECT source, environment, key, kind, product, as_of_ms, line FROM purchases
                CROSS JOIN regexp_split_to_table(convert_from(state, 'UTF8'), '\n') WITH ORDINALITY AS l (line, number)
                WHERE number > 1
            UNION ALL SELECT p.source, p.environment, p.key, e.holder, e.active::text, 0, '' FROM entitlements e
                JOIN purchases p ON p.id = e.purchase
            UNION ALL SELECT source, environment, anonymous_user_id, user_id, '', as_of_ms, '' FROM holder_links
            UNION ALL SELECT source, environment, first, token::text, is_replaced::text, 0, '' FROM purchase_tokens
            """
        ).map { $0.flatMap { $0.components(separatedBy: "\t") } }
        var picture = rows.map { $0.joined(separator: " ") }
        for person in people {
            for path in person.hasPrefix("install") ? ["entitlements"] : ["entitlements", "identities"] {
                let answer = try relay.ask("GET", "/v1/\(path)?\(person)")
                guard let found = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any],
                    let entries = found["data"] as? [[String: Any]]
                else {
                    Issue.record("\(path) \(person): \(answer.text)")
                    continue
                }
                for entry in entries {
                    let kept = entry.filter { $0.key != "cause" }
                    let text = try JSONSerialization.data(withJSONObject: kept, options: [.sortedKeys])
                    picture.append("\(path) \(person) \(String(decoding: text, as: UTF8.self))")
                }
            }
        }
        let asked = asked(rows, since: started)
        return Set(
            picture.map { text in
                asked.reduce(text) { text, moment in
                    text.contains(moment.purchase)
                        ? text.replacingOccurrences(of: moment.time, with: moment.name) : text
                }
            })
    }

    /// A moment at which Google's API was asked about a purchase: what it says is as of that moment, which is another
    /// in each ledger. It is written as the n-th of its purchase.
    private struct Asked {
        let purchase: String
        let time: String
        let name: String
    }

    private static func asked(_ rows: [[String]], since started: Int64) -> [Asked] {
        var asked: [Asked] = []
        let states = Dictionary(grouping: rows.filter { $0[0] == "play" && $0.count > 7 }) { $0[2] }
        for (purchase, lines) in states {
            let times = Set(lines.flatMap { [$0[5], $0[7]] }.compactMap { Int64($0) }.filter { $0 >= started })
            for (number, time) in times.sorted().enumerated() {
                // Without a stated end, what is lost lasted for a minute more, and what is revoked until just before.
                for (written, name) in [
                    ("\(time)", ""), (Timestamp(milliseconds: time).iso8601, ""), ("\(time + 60_000)", " + 60 s"),
                    ("\(time - 1)", " - 1 ms"),
                ] {
                    asked.append(Asked(purchase: purchase, time: written, name: "asked \(number)\(name)"))
                }
            }
        }
        return asked
    }

    private static func send(_ arrivals: [Arrival], _ google: Google, to relays: [Relay]) throws {
        for arrival in arrivals {
            for (token, answer) in arrival.answers { google.know(token, answer) }
            for relay in relays {
                let headers = try arrival.headers
                #expect(try relay.post(arrival.source, headers, arrival.body) == 200, "\(arrival.source)")
            }
        }
    }

    @Test("Of every kind of source: the same answers and states after a round trip, and when webhooks have followed")
    func everyKind() throws {
        let started = Int64(Date().timeIntervalSince1970 * 1_000)
        let (google, store) = (try Google(), try AppStore())
        let receiver = try Receiver()
        let histories = try (0..<12).map { number in
            switch number % 4 {
            case 0: try StoreHistory.apple(number, isOver: number > 5, from: store)
            case 1: StoreHistory.google(number, isOver: number > 5)
            case 2: StoreHistory.stripe(number, .session, isOver: number > 5)
            default: StoreHistory.stripe(number, .metadata, isOver: number > 5)
            }
        }
        func relay() throws -> Relay {
            let integrations = [Relay.Integration("backend", receiver)]
            let relay = try Relay(integrations)
            try relay.configure(
                integrations,
                sources: [Relay.SourceTable(), store.source, try google.source(in: relay.directory), Stripe.source]
                    + Self.senders.map { Relay.SourceTable(name: $0.kind, secrets: [Self.secret(of: $0.kind)]) })
            try relay.start()
            return relay
        }
        let (one, other) = (try relay(), try relay())
        defer {
            one.end()
            other.end()
        }
        let authorization = try Google.authorization()
        let test = Google.push(#""testNotification":{"version":"1.0"}"#, id: "test")
        for relay in [one, other] {
            // The keys of its tokens are fetched in the background.
            #expect(try eventually(within: 180, { try relay.post("play", authorization, test) == 200 }))
        }
        let (first, second) = Self.arrivals(histories)
        try Self.send(first, google, to: [one])
        for (holder, at) in [(Holder.anonymous("d"), Webhook.epoch), (Holder.user("u1"), Webhook.epoch + Webhook.day)] {
            #expect(try one.source().post(Webhook("ACTIVATE", holder, purchase: "subs_1", at: at)) == 200)
        }
        let people =
            ["user_id=u1", "install=u1", "anonymous_user_id=d"]
            + histories.flatMap { ["user_id=\($0.userID)", "anonymous_user_id=\($0.anonymousID)"] }
        let before = try Self.picture(one, people, since: started)

        let exported = try one.command("export", "--config", one.configuration)
        #expect(exported.end == .exited(0), "\(exported.errors)")
        let file = try other.directory.write("exported", exported.output + "\n")
        for source in ["purchasely", "apple", "play", "stripe"] + Self.senders.map(\.kind) {
            let tally = try other.json("import", source, file)
            #expect((tally["recorded"] as? Int ?? 0) > 0 && tally["left_out"] as? Int == 0, "\(source) \(tally)")
        }
        let same = try Self.picture(other, people, since: started)
        #expect(before.subtracting(same) == [] && same.subtracting(before) == [])

        try Self.send(second, google, to: [one, other])
        let after = try Self.picture(one, people, since: started)
        let imported = try Self.picture(other, people, since: started)
        #expect(after.subtracting(imported).sorted() == [])
        #expect(imported.subtracting(after).sorted() == [])
        for history in histories {
            let expected = history.outcome(Array(history.notices.indices)).access
            #expect(try other.database.access()[history.key] == expected, "\(history.source) \(history.key)")
        }
    }
}
