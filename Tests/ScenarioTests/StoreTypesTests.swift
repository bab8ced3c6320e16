import Foundation
import Testing

/// Every notification that a store documents, one that it does not and what is none, over HTTP to the real binary:
/// first in order, then to a second source in another order and twice each, then once more to the first. Oracle: the
/// tables `AppleTypes`, `GoogleTypes` and `StripeTypes`, by hand.
@Suite struct StoreTypesTests {
    @Test("Apple: each type with each subtype gives its type, holder, access and money; in any order, twice each")
    func apple() throws {
        let store = try AppStore()
        let types = try AppleTypes(store)
        try Sending(types.notices, types.others, headers: { _ in [] }).check { _ in [store.source] }
    }

    @Test("Google Play: each notification, with the API's answer and without, gives its type, holder, access and money")
    func googlePlay() throws {
        let google = try Google()
        let types = GoogleTypes()
        let authorization = try Google.authorization()
        try Sending(types.notices, types.others, headers: { _ in authorization }, google: google).check { directory in
            let named = try google.source(asksAPI: false, in: directory, ["environment": "\"PRODUCTION\""])
            return [try google.source(in: directory), Relay.SourceTable.renamed(named, GoogleTypes.withoutAPI)]
        }
    }

    @Test("Stripe: each event gives its type, holder, access and money; in any order, twice each")
    func stripe() throws {
        let types = try StripeTypes()
        try Sending(types.notices, types.others, headers: Stripe.signature).check { _ in [Stripe.source] }
    }

    // MARK: Sending

    private struct Sending {
        let notices: [StoreNotice]
        let others: [StoreNotice.Other]
        let headers: (_ body: [UInt8]) -> [(String, String)]
        let google: Google?

        /// Of the sources that get everything in another order.
        private static let shuffled = "-shuffled"

        init(
            _ notices: [StoreNotice], _ others: [StoreNotice.Other],
            headers: @escaping (_ body: [UInt8]) -> [(String, String)], google: Google? = nil
        ) {
            self.notices = notices
            self.others = others
            self.headers = headers
            self.google = google
        }

        func check(by sources: (ScratchDirectory) throws -> [Relay.SourceTable]) throws {
            let receiver = try Receiver()
            let integrations = [Relay.Integration("backend", receiver, ["concurrency": "8"])]
            let relay = try Relay(integrations)
            defer { relay.end() }
            let inOrder = try sources(relay.directory)
            let inAnother = inOrder.map { Relay.SourceTable.renamed($0, $0.name + Self.shuffled) }
            try relay.configure(integrations, sources: inOrder + inAnother)
            try relay.start()
            let client = HTTPClient(port: relay.port)

            for notice in notices { try send(notice, to: notice.source, client) }
            for other in others { try send(other, client) }
            var dice = Dice(state: 20_261_124)
            for notice in (notices + notices).shuffled(using: &dice) {
                try send(notice, to: notice.source + Self.shuffled, client)
            }

            let expected = 2 * (notices.count + 2 * notices.count(where: \.isTransfer))
            #expect(receiver.waitForAccepted(expected))
            let database = try relay.database
            #expect(try database.drained())
            try check(receiver.received, in: database)

            // Each once more: nothing new.
            for notice in notices.reversed() { try send(notice, to: notice.source, client) }
            for other in others { try send(other, client) }
            #expect(try database.drained())
            #expect(receiver.count == expected)
            try check(receiver.received, in: database)
        }

        private func send(_ notice: StoreNotice, to source: String, _ client: HTTPClient) throws {
            for (token, answer) in notice.answers { google?.know(token, answer) }
            let status = try post(notice.body, to: source, client)
            #expect(status == 200, "\(notice.name) \(notice.id) to \(source)")
        }

        private func send(_ other: StoreNotice.Other, _ client: HTTPClient) throws {
            let status = try post(other.body, to: other.source, isProven: other.isProven, client)
            #expect(status == other.status, "\(other.body.prefix(200))")
        }

        /// A vendor sends again what is answered 503: the machine is busy, or the keys of signatures are not there yet.
        private func post(
            _ body: String, to source: String, isProven: Bool = true, _ client: HTTPClient
        ) throws -> Int {
            let bytes = Array(body.utf8)
            let proof = isProven ? headers(bytes) : []
            var status = 0
            _ = try eventually {
                status = try client.request("POST", "/ingest/\(source)", headers: proof, body: bytes).status
                return status != 503
            }
            return status
        }

        // MARK: What came of it

        private func check(_ received: [Received], in database: Database) throws {
            let events = Dictionary(
                grouping: try database.rows(
                    "SELECT source, vendor_event_id, name, type, holder, environment FROM events"),
                by: { $0[0] + " " + $0[1] })
            #expect(events.count == 2 * notices.count)
            let messages = Dictionary(
                grouping: received.filter { !($0.data["transfer"] is [String: Any]) },
                by: { "\($0.data["source"] as? String ?? "") \($0.data["event_id"] as? String ?? "")" })
            for notice in notices {
                for source in [notice.source, notice.source + Self.shuffled] {
                    let key = source + " " + notice.id
                    let found = events[key] ?? []
                    let isOpen = notice.isByMemory && source != notice.source
                    let type = isOpen ? found.first?[3] ?? "" : notice.type
                    let comment = Comment(rawValue: "\(notice.name), \(notice.type), \(key)")
                    let expected = [source, notice.id, notice.name, type, notice.holder, notice.environment]
                    #expect(found == [expected], comment)
                    check(messages[key] ?? [], notice, type, comment)
                }
            }
            try checkAccess(in: database)

            let transfers = notices.count(where: \.isTransfer)
            #expect(try database.count("transfers") == 2 * transfers)
            let announcing = received.count { $0.data["transfer"] is [String: Any] }
            #expect(announcing == 4 * transfers)
            #expect(try database.count("quarantine") == others.count(where: \.isKept))
        }

        private func check(_ messages: [Received], _ notice: StoreNotice, _ type: String, _ comment: Comment) {
            #expect(messages.count == 1, comment)
            for message in messages {
                let data = message.data
                #expect(message.isVerified && message.type == type, comment)
                #expect(data["event_name"] as? String == notice.name, comment)
                #expect(data["environment"] as? String == notice.environment, comment)
                let holder = data["holder"] as? [String: String] ?? [:]
                let user = holder["user_id"].map { "user:" + $0 }
                #expect(user ?? holder["anonymous_user_id"].map { "anon:" + $0 } ?? "" == notice.holder, comment)
                let purchase = data["purchase"] as? [String: Any]
                #expect(purchase?["key"] as? String == notice.purchase, comment)
                #expect(StoreNotice.said(data["money"]) == notice.money, comment)
            }
        }

        /// In either order of arrival the same.
        private func checkAccess(in database: Database) throws {
            var access: [String: [String: Bool]] = [:]
            let rows = try database.rows(
                """
                SELECT p.source, p.key, e.holder, e.active FROM purchases p
                LEFT JOIN entitlements e ON e.purchase = p.id
                """)
            for row in rows {
                let key = row[0] + " " + row[1]
                access[key, default: [:]][row[2]] = row[3] == "t"
            }
            var expected: [String: [String: Bool]] = [:]
            for notice in notices {
                guard let purchase = notice.purchase else { continue }
                for source in [notice.source, notice.source + Self.shuffled] {
                    // Of those about one purchase the last one says it. psql writes null as "".
                    expected[source + " " + purchase] = notice.access.isEmpty ? ["": false] : notice.access
                }
            }
            #expect(Set(access.keys) == Set(expected.keys))
            // The store's own id has a row without access from the first event on that goes on.
            for (key, holders) in expected {
                let having = access[key]?.filter { !$0.key.hasPrefix("anon:") || $0.value || holders[$0.key] != nil }
                #expect(having == holders, "\(key)")
            }
        }
    }
}

extension Relay.SourceTable {
    fileprivate static func renamed(_ table: Relay.SourceTable, _ name: String) -> Relay.SourceTable {
        var table = table
        table.name = name
        return table
    }
}
