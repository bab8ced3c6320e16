import Foundation
import Testing
import Vocabulary

/// The oracles that are not ours: PyPI `standardwebhooks` and `svix` verify every delivery, in both formats, first
/// attempts and retries. So does the check that posthouse-messages(7), "Signatures", shows. Runs where
/// POSTHOUSE_TEST_PYTHON names a Python that has the packages; else it is shown as skipped.
@Suite struct DeliveryOtherVerifierTests {
    private static let python = ProcessInfo.processInfo.environment["POSTHOUSE_TEST_PYTHON"]

    /// Reads lines of secret, id, timestamp, signature and body (hex), separated by tabs; prints how many it verified.
    /// It follows the manual's check, `is_authentic`, whose clock it sets.
    private static let verifier = """
        import sys
        import standardwebhooks.webhooks, svix.webhooks
        count = 0
        for line in open(sys.argv[1]):
            secret, id, timestamp, signature, body = line.rstrip("\\n").split("\\t")
            body = bytes.fromhex(body)
            headers = {"webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature}
            for library in (standardwebhooks.webhooks, svix.webhooks):
                library.Webhook(secret).verify(body, headers)
                try:
                    library.Webhook(secret).verify(body + b" ", headers)
                except library.WebhookVerificationError:
                    continue
                sys.exit("a changed body was verified, too: this verifier proves nothing")
            count += 1
            time.time = lambda: int(timestamp) + 300
            if not is_authentic(secret, headers, body):
                sys.exit("the manual's check refuses a delivery")
            if is_authentic(secret, headers, body + b" "):
                sys.exit("the manual's check takes a changed body")
            time.time = lambda: int(timestamp) + 301
            if is_authentic(secret, headers, body):
                sys.exit("the manual's check takes an old delivery")
        print(count)
        """

    @Test(
        "PyPI standardwebhooks and svix and the manual's own check verify every delivery",
        .enabled(if: python != nil, "set POSTHOUSE_TEST_PYTHON to a Python with standardwebhooks and svix"))
    func standardwebhooks() throws {
        let standard = try Receiver { $0.number.isMultiple(of: 5) ? .status(500) : .ok }
        let asSource = try Receiver(secrets: [Receiver.newSecret(), Receiver.newSecret()])
        // `v1a` beside `v1`: the library passes over what it does not know.
        let asymmetric = "whsk_" + Data((0..<32).map { _ in UInt8.random(in: 0...255) }).base64EncodedString()
        // One in five fails: a message that is tried six times may fail each time.
        let gaps = "[" + Array(repeating: #""20ms""#, count: 20).joined(separator: ", ") + "]"
        let relay = try Relay.running([
            .init("standard", standard, ["schedule": gaps]),
            .init(
                "source", url: asSource.url, secrets: [asymmetric] + asSource.secrets, ["format": "\"source\""]),
        ])
        defer { relay.end() }
        let connection = relay.source().connect()
        for number in 0..<40 {
            let purchase = "subs_\(number)"
            let odd = String(repeating: "é漢😀", count: number)
            #expect(connection.store(Webhook("DEACTIVATE", .anonymous("a"), purchase: purchase)))
            #expect(connection.store(Webhook("ACTIVATE", .user("u\(odd)"), purchase: purchase)))
        }
        #expect(try relay.database.drained())
        let deliveries = [standard, asSource].flatMap { receiver in
            receiver.secrets.flatMap { secret in receiver.received.map { (secret, $0) } }
        }
        #expect(standard.accepted.count == 160)
        #expect(standard.count > 160)
        #expect(asSource.count == 160)
        let lines = deliveries.map { secret, message in
            [
                secret, message.id, message.request["webhook-timestamp"] ?? "",
                message.request["webhook-signature"] ?? "", message.body.map { String(format: "%02x", $0) }.joined(),
            ].joined(separator: "\t")
        }
        let recorded = try relay.directory.write("recorded", lines.joined(separator: "\n") + "\n")
        let shown = try ManualPage("posthouse-messages.7").block("import base64, hashlib")
        let script = try relay.directory.write("verify.py", (shown + [Self.verifier]).joined(separator: "\n"))
        let child = try ChildProcess([Self.python ?? "", script, recorded])
        #expect(child.waitForEnd(180) == .exited(0), "\(child.errors)")
        #expect(child.output == ["\(deliveries.count)"])
    }
}
