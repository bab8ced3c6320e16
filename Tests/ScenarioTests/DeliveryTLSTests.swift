import Foundation
import Testing
import Vocabulary

/// Receivers behind HTTPS, from the configuration to the journal. That chain, name and validity are checked at all is
/// for the tests of HTTPClient.
@Suite struct DeliveryTLSTests {
    private static let refusal = "the certificate is expired or not signed by a trusted authority"
    /// Each message makes a connection of its own: what is kept open asks for no certificate again.
    private static let accepting: Receiver.Script = { _ in .status(204, headers: ["connection: close"]) }

    private static func webhook(_ number: Int) -> Webhook {
        Webhook("ACTIVATE", .user("u\(number)"), purchase: "subs_\(number)")
    }

    @Test("An expired certificate: retried, dead by the schedule, said in the journal; a renewed one needs no restart")
    func expired() throws {
        let (late, doomed) = (try Receiver(script: Self.accepting), try Receiver(script: Self.accepting))
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let authority = try CertificateAuthority("authority", in: directory)
        let file = directory.path + "/leaf"
        try authority.issue(file, days: -1)
        let fronts = [try TLSFront(late, certificate: file), try TLSFront(doomed, certificate: file)]
        let trusted = #""\#(directory.path)/authority.pem""#
        let steady = "[" + Array(repeating: #""300ms""#, count: 60).joined(separator: ", ") + "]"
        let relay = try Relay.running([
            .init("late", url: fronts[0].url, secrets: late.secrets, ["ca_file": trusted, "schedule": steady]),
            .init(
                "doomed", url: fronts[1].url, secrets: doomed.secrets, ["ca_file": trusted, "schedule": #"["50ms"]"#]),
        ])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        for (name, outcome) in [("late", "retry"), ("doomed", "dead")] {
            #expect(
                relay.waitForLine("integration=\(name)", "outcome=\(outcome)", Self.refusal) != nil,
                "\(relay.lines.suffix(5))")
        }
        // The line is written before the settlement.
        let database = try relay.database
        #expect(try eventually { try database.value("SELECT reason FROM dead_letters").contains(Self.refusal) })
        #expect(late.count == 0 && doomed.count == 0, "not one byte of a message went to either")
        let process = relay.processIdentifier
        try authority.issue(file, days: 2)
        #expect(late.waitForAccepted(1, 180))
        #expect(try relay.source().post(Self.webhook(2)) == 200)
        #expect(late.waitForAccepted(2, 180) && doomed.waitForAccepted(1, 180))
        #expect(relay.processIdentifier == process)
        #expect((late.accepted + doomed.accepted).allSatisfy { $0.isVerified })
    }

    @Test("A receiver of another authority is refused until ca_file has it and the daemon is told to read it")
    func renewedAuthority() throws {
        let receiver = try Receiver(script: Self.accepting)
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let (first, second) = (
            try CertificateAuthority("first", in: directory), try CertificateAuthority("second", in: directory)
        )
        let (file, trusted) = (directory.path + "/leaf", try directory.write("trusted.pem", first.pem))
        try first.issue(file, days: 2)
        let front = try TLSFront(receiver, certificate: file)
        let relay = try Relay.running([
            .init(
                "backend", url: front.url, secrets: receiver.secrets,
                ["ca_file": "\"\(trusted)\"", "schedule": #"["300ms", "1h", "1h"]"#])
        ])
        defer { relay.end() }
        #expect(try relay.source().post(Self.webhook(1)) == 200)
        #expect(receiver.waitForAccepted(1, 180))
        try second.issue(file, days: 2)
        try directory.write("trusted.pem", second.pem)
        #expect(try relay.source().post(Self.webhook(2)) == 200)
        #expect(relay.waitForLine("attempt=2", "outcome=retry", Self.refusal) != nil)
        #expect(receiver.count == 1)
        let process = relay.processIdentifier
        let reloaded = try relay.reload()
        #expect(
            reloaded.contains("nothing differs from the one before; ca_file read again: backend"), "\(reloaded)")
        let database = try relay.database
        #expect(try eventually { try database.count("deliveries", where: "attempts = 2 AND leased_by IS NULL") == 1 })
        try database.rows("UPDATE deliveries SET due_at = now()")
        #expect(receiver.waitForAccepted(2, 180))
        #expect(relay.processIdentifier == process)
    }
}
