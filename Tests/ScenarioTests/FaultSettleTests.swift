import Foundation
import Testing
import Vocabulary

extension FaultTests {
    /// Changes a table that the daemon writes to. It locks the partitions, too, one after the other, so PostgreSQL may
    /// end it as one side of a deadlock: then once more.
    private func change(_ database: Database, _ statement: String) throws {
        for _ in 0..<20 {
            do {
                _ = try database.rows(statement)
                return
            } catch {
                guard "\(error)".contains("deadlock detected") else { throw error }
            }
        }
        _ = try database.rows(statement)
    }

    @Test(
        "Each table refuses writes in turn: nothing is lost, SIGTERM ends it meanwhile, all drains when it takes them")
    func refusedWrites() throws {
        let receiver = try Receiver { $0.number % 7 == 3 ? .status(400) : .ok }
        let relay = try Relay.running(
            [.init("backend", receiver, ["permanent": "[400]", "order": #""none""#, "rate": #""2000/s""#])])
        defer { relay.end() }
        let database = try relay.database
        _ = try database.rows(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused by a test'; END $$")
        var sent = 0
        for table in ["attempts", "deliveries", "dead_letters", "daemons", "breakers", "rate_slots"] {
            let events = table == "deliveries" ? "UPDATE OR DELETE" : "INSERT OR UPDATE OR DELETE"
            try change(
                database, "CREATE TRIGGER refuse BEFORE \(events) ON \(table) FOR EACH ROW EXECUTE FUNCTION refuse()")
            for number in 0..<30 {
                let id = "\(table)-\(number)"
                let webhook = Webhook("ACTIVATE", .user(id), purchase: "subs_\(id)", eventID: id)
                #expect(relay.source().connect().store(webhook))
            }
            sent += 30
            if table == "attempts" {
                #expect(relay.waitForLine("refuses to record how an attempt ended") != nil)
                #expect(relay.stop() == .exited(0))
                #expect(relay.lines.contains { $0.contains("could not be recorded") })
                try relay.start()
            }
            try change(database, "DROP TRIGGER refuse ON \(table)")
            #expect(try database.drained(), "\(table)")
        }
        // Of each message one word that is final: accepted, or dead.
        let settled = "(SELECT count(*) FROM dead_letters) + count(DISTINCT delivery)"
        #expect(
            try database.value(
                "SELECT \(settled) = (SELECT count(*) FROM messages) FROM attempts WHERE outcome = 'accepted'")
                == "t")
        #expect(try database.count("events", where: "name = 'ACTIVATE'") == sent)
        #expect(relay.lines.count { $0.contains("refuses to record how an attempt ended") } <= 12, "no flood")
    }

    @Test("An integration that is removed during an attempt and brought back: the next message goes out at once")
    func removedMeanwhile() throws {
        let answers = Monitor(false)
        let receiver = try Receiver { request in
            if request.number == 0 { _ = answers.wait(180) { $0 } }
            return .ok
        }
        let integration = Relay.Integration("backend", receiver)
        let relay = try Relay.running([integration])
        defer { relay.end() }
        for name in ["ACTIVATE", "SUBSCRIPTION_RENEWED"] {
            #expect(
                try relay.source().post(Webhook(name, .user("u"), purchase: "subs_1", eventID: name)) == 200)
        }
        #expect(receiver.wait { $0.count == 1 })
        try relay.configure([])
        #expect(try relay.reload().contains("removed integration backend"))
        answers.change { $0 = true }
        #expect(try eventually { try relay.database.count("deliveries", where: "NOT blocked") == 1 })
        try relay.configure([integration])
        #expect(try relay.reload().contains("added integration backend"))
        // The sweep that would find it comes with the start, and then half a minute later.
        #expect(receiver.waitForAccepted(2, 20))
    }

    @Test("kill -9 and a start on the same state directory: taken over at once, not when the lease has ended")
    func successor() throws {
        // None ends before the kill, however long the machine takes to come to that.
        let receiver = try Receiver { _ in .hang }
        let relay = try Relay.running([.init("backend", receiver, ["concurrency": "2"])])
        defer { relay.end() }
        for number in 0..<20 {
            let id = "\(number)"
            #expect(try relay.source().post(Webhook("ACTIVATE", .user(id), purchase: "subs_\(id)", eventID: id)) == 200)
        }
        #expect(receiver.wait { $0.count >= 2 })
        receiver.answer { _ in .ok }
        relay.kill()
        try relay.start()
        #expect(try relay.database.count("daemons") == 1, "its predecessor's lease has ended")
        // By the look at the start: the next is half a minute later.
        #expect(relay.waitForLine("reclaimed", within: 25) != nil)
        #expect(try relay.database.drained())
    }
}
