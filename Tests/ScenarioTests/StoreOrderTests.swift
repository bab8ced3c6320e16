import Testing

/// Invariants I1 and I2 over HTTP for the stores themselves: the webhooks of a purchase that begins without an account,
/// in order, in reverse order and shuffled, each of them twice. Oracle: `StoreHistory`, by hand.
@Suite struct StoreOrderTests {
    /// One history in one order of arrival, with a purchase of its own, so that all run in one relay at once.
    private struct Case: Sendable {
        let number: Int
        let history: StoreHistory
        /// Positions of the history's notices.
        let order: [Int]

        struct Arrival: Sendable {
            let notice: StoreHistory.Notice
            let answers: [(token: String, answer: Google.Answer)]
        }

        /// Each notice twice: the second time at once, or after everything else.
        var arrivals: [Arrival] {
            let moments = history.play?.moments(order)
            let once = order.enumerated().map { index, position in
                Arrival(
                    notice: history.notices[position],
                    answers: moments.flatMap { history.play?.answers(at: $0[index]) } ?? [])
            }
            return number.isMultiple(of: 2) ? once.flatMap { [$0, $0] } : once + once.reversed()
        }

        var expected: StoreHistory.Outcome { history.outcome(order) }

        var comment: Comment { Comment(rawValue: "\(history.source), over: \(history.isOver), \(number): \(order)") }
    }

    /// Of each history, beside its order of time and the reverse.
    private static let shuffles = 6

    private enum Story: CaseIterable {
        case apple, google, stripeSession, stripeMetadata

        func history(_ number: Int, isOver: Bool, _ store: AppStore) throws -> StoreHistory {
            switch self {
            case .apple: try StoreHistory.apple(number, isOver: isOver, from: store)
            case .google: StoreHistory.google(number, isOver: isOver)
            case .stripeSession: StoreHistory.stripe(number, .session, isOver: isOver)
            case .stripeMetadata: StoreHistory.stripe(number, .metadata, isOver: isOver)
            }
        }
    }

    private static func cases(_ store: AppStore) throws -> [Case] {
        var dice = Dice(state: 14)
        var cases: [Case] = []
        for story in Story.allCases {
            for isOver in [false, true] {
                for turn in 0..<(shuffles + 2) {
                    let history = try story.history(cases.count, isOver: isOver, store)
                    var order = Array(history.notices.indices)
                    if turn == 1 { order.reverse() } else if turn > 1 { order.shuffle(using: &dice) }
                    cases.append(Case(number: cases.count, history: history, order: order))
                }
            }
        }
        return cases
    }

    @Test("A store's webhooks in any order, twice each: the same types, one transfer, the same holders and access")
    func everyOrder() throws {
        let (google, receiver, store) = (try Google(), try Receiver(), try AppStore())
        let integrations = [Relay.Integration("backend", receiver, ["concurrency": "8"])]
        let relay = try Relay(integrations)
        defer { relay.end() }
        try relay.configure(
            integrations, sources: [store.source, try google.source(in: relay.directory), Stripe.source])
        try relay.start()
        let cases = try Self.cases(store)
        #expect(try Self.send(cases, google, to: relay) == [])

        let expected = cases.map { $0.order.count + ($0.expected.isTransfer ? 2 : 0) }.reduce(0, +)
        #expect(receiver.waitForAccepted(expected, 180))
        let database = try relay.database
        #expect(try database.drained())
        #expect(receiver.count == expected)
        #expect(try database.count("quarantine") == 0)
        #expect(try database.count("purchases") == cases.count)
        let transfers = cases.filter(\.expected.isTransfer).count
        #expect(try database.count("transfers") == transfers && transfers > 0 && transfers < cases.count)

        try Self.check(cases, in: database)
        Self.check(cases, at: receiver)

        // Repair finds nothing to do, and rebuilds everything as it was.
        let before = try database.rows(RepairTests.picture)
        let sound = try relay.json("repair", "--all")
        #expect(sound["checked"] as? Int == cases.count && sound["repaired"] as? Int == 0, "\(sound)")
        #expect(sound["kept"] as? Int == 0 && (sound["failed"] as? [Any] ?? []).isEmpty, "\(sound)")
        try database.rows("UPDATE purchases SET state = '\\xff'")
        let rebuilt = try relay.json("repair", "--all")
        #expect(rebuilt["repaired"] as? Int == cases.count, "\(rebuilt)")
        #expect(try database.rows(RepairTests.picture) == before)
    }

    /// What was not answered 200.
    private static func send(_ cases: [Case], _ google: Google, to relay: Relay) throws -> [String] {
        let authorization = try Google.authorization()
        // The keys of its tokens are fetched in the background.
        let test = Google.push(#""testNotification":{"version":"1.0"}"#, id: "test")
        guard try eventually({ try relay.post("play", authorization, test) == 200 }) else {
            return ["Google's test notification"]
        }
        let refused = Monitor<[String]>([])
        onThreads(4) { thread in
            let client = HTTPClient(port: relay.port)
            // Cases of one thread are of both parities, and so are their second copies.
            for item in cases where item.number / 2 % 4 == thread {
                let source = item.history.source
                for arrival in item.arrivals {
                    for (token, answer) in arrival.answers { google.know(token, answer) }
                    let body = Array(arrival.notice.body.utf8)
                    let headers: [(String, String)] =
                        switch source {
                        case "play": authorization
                        case "stripe": Stripe.signature(of: body)
                        default: []
                        }
                    // A vendor sends again what is answered 503: the machine is busy.
                    var status = 0
                    _ = eventually {
                        let answer = try? client.request("POST", "/ingest/\(source)", headers: headers, body: body)
                        status = answer?.status ?? 0
                        return status != 503
                    }
                    if status != 200 {
                        let line = "\(arrival.notice.id) in \(item.order): \(status)"
                        refused.change { $0.append(line) }
                    }
                }
            }
        }
        return refused.current
    }

    private static func check(_ cases: [Case], in database: Database) throws {
        let access = try database.access()
        let events = Dictionary(
            grouping: try database.rows("SELECT vendor_event_id, type, holder FROM events"), by: { $0[0] })
        let transfers = Dictionary(
            grouping: try database.rows(
                """
                SELECT p.key, t.from_holder, t.to_holder, t.ordinal FROM transfers t
                JOIN purchases p ON p.id = t.purchase
                """), by: { $0[0] })
        for item in cases {
            let (history, expected) = (item.history, item.expected)
            for notice in history.notices {
                #expect(events[notice.id] == [[notice.id, notice.type, notice.holder]], item.comment)
            }
            // The store's own id has a row without access from the first event on that goes on.
            let own = "anon:" + history.anonymousID
            let having = access[history.key]?.filter { $0.key != own || $0.value || expected.access[own] != nil }
            #expect(having == expected.access, item.comment)
            let transfer = [history.key, "anon:" + history.anonymousID, "user:" + history.userID, "1"]
            let announced = transfers[history.key] ?? []
            #expect(announced == (expected.isTransfer ? [transfer] : []), item.comment)
        }
    }

    /// Each event is one message of its type, and a transfer is one pair that names both holders, the old one's first.
    private static func check(_ cases: [Case], at receiver: Receiver) {
        var passedOn: [String: [String]] = [:]
        var pairs: [String: [String]] = [:]
        for message in receiver.received {
            #expect(message.isVerified)
            let (type, data) = (message.type, message.data)
            guard let transfer = data["transfer"] as? [String: Any] else {
                passedOn[data["event_id"] as? String ?? "", default: []].append(type)
                continue
            }
            let key = (data["purchase"] as? [String: Any])?["key"] as? String ?? ""
            let from = (transfer["from"] as? [String: String])?["anonymous_user_id"] ?? ""
            let to = (transfer["to"] as? [String: String])?["user_id"] ?? ""
            pairs[key, default: []].append("\(type) \(from) \(to)")
        }
        for item in cases {
            let history = item.history
            for notice in history.notices {
                #expect(passedOn[notice.id] == [notice.type], item.comment)
            }
            let pair = ["SUBSCRIPTION_TRANSFERRED", "SUBSCRIPTION_RECEIVED"].map {
                "\($0) \(history.anonymousID) \(history.userID)"
            }
            let sent = pairs[history.key] ?? []
            #expect(sent == (item.expected.isTransfer ? pair : []), item.comment)
        }
    }
}
