import NIOCore
import NIOSSL
import Testing
import Vocabulary

@testable import HTTPClient

/// TLS is always verified: chain, name and validity. Certificates come from the openssl command.
@Suite(.timeLimit(.minutes(30)))
struct EndpointTLSTests {
    private let certificates: Certificates
    private let own: EndpointTrust

    init() throws {
        certificates = try Certificates.shared.get()
        own = try EndpointTrust.authorities(file: certificates.authorityFile)
    }

    @Test(arguments: ["receiver.test", "a.wild.test"])
    func acceptsOwnAuthority(host: String) async throws {
        let server = try await server("named")
        let client = try await ClientHarness.make(port: server.port, host: host, isTLS: true, trust: own)
        let large = [[UInt8](repeating: 7, count: 300_000)]
        for _ in 0..<3 { #expect(try await client.send(large).status == 200) }
        #expect(server.connections == 1)
        #expect(server.received.allSatisfy { $0.body.count == 300_000 })
        try await client.close()
        await server.stop()
    }

    @Test func acceptsALiteralThatTheCertificateNames() async throws {
        let server = try await server("literal")
        let client = try await ClientHarness.make(port: server.port, isTLS: true, trust: own)
        #expect(try await client.send().status == 200)
        try await client.close()
        await server.stop()
    }

    @Test("Authorities that are read anew hold for the next connection")
    func renewedAuthorities() async throws {
        let server = try await server("literal")
        let other = try EndpointTrust.authorities(file: certificates.path("other.pem"))
        let client = try await ClientHarness.make(port: server.port, isTLS: true, trust: other)
        #expect(try await client.send().status == nil)
        try await client.renew(own)
        #expect(try await client.send().status == 200)
        try await client.close()
        await server.stop()
    }

    @Test func refusesAnUnknownAuthority() async throws {
        let other = try EndpointTrust.authorities(file: certificates.path("other.pem"))
        for trust in [other, try EndpointTrust.system()] {
            try await expectRefusal("named", host: "receiver.test", trust: trust, saying: "trusted authority")
        }
    }

    @Test func refusesAnExpiredCertificate() async throws {
        try await expectRefusal("expired", host: "receiver.test", trust: own, saying: "expired")
    }

    @Test(arguments: ["wrong.test", "a.b.wild.test", "127.0.0.1", "under_score.test"])
    func refusesAnotherHost(host: String) async throws {
        try await expectRefusal("named", host: host, trust: own, saying: "host")
    }

    @Test func refusesALiteralThatTheCertificateDoesNotName() async throws {
        try await expectRefusal("named", host: "127.0.0.1", trust: own, saying: "host")
        try await expectRefusal("literal", host: "receiver.test", trust: own, saying: "host")
    }

    @Test(arguments: [
        ("a.test", "a.test", true), ("A.Test", "a.tEST.", true), ("a.test.", "a.test", true),
        ("*.b.test", "a.b.test", true),
        ("*.b.test", "b.test", false), ("*.b.test", "a.a.b.test", false), ("a*.b.test", "ab.b.test", false),
        ("*", "test", false), ("*.test", "a.test", false), ("a.test", "b.test", false), ("*.b.test", ".b.test", false),
        ("", "", false), ("a.test\0.b.test", "a.test", false),
    ]) func namesThatCoverAHost(name: String, host: String, covers: Bool) {
        #expect(HostCheck.covers(Array(name.utf8), host: host) == covers)
    }

    @Test func saysThatTheReceiverSpeaksNoTLS() async throws {
        let server = try await MisbehavingServer.start(greeting: "HTTP/1.1 400 Bad Request\r\n\r\n") { _, _ in }
        let client = try await ClientHarness.make(port: server.port, host: "receiver.test", isTLS: true, trust: own)
        guard case .tlsFailed = try await client.send().failure else {
            Issue.record("plain HTTP passed for TLS")
            return
        }
        await server.stop()
    }

    @Test func timesOutInTheHandshake() async throws {
        let server = try await MisbehavingServer.start(readsRequests: false) { _, _ in }
        let client = try await ClientHarness.make(port: server.port, host: "receiver.test", isTLS: true, trust: own)
        var found: RequestFailure?
        // A busy machine may be late with the connection: then once more, with more time.
        for timeout in [Duration.seconds(5), .seconds(60)] where found != .timedOut(.handshaking) {
            found = try await client.send(timeout: timeout).failure
        }
        #expect(found == .timedOut(.handshaking))
        await server.stop()
    }

    @Test func timesOutBehindTheHandshake() async throws {
        let server = try await MisbehavingServer.start(tls: certificates.server("named")) { _, _ in }
        let client = try await ClientHarness.make(port: server.port, host: "receiver.test", isTLS: true, trust: own)
        var found: RequestFailure?
        // A busy machine may be late with the handshake: then once more, with more time.
        for timeout in [Duration.seconds(3), .seconds(60)] where found != .timedOut(.head) {
            found = try await client.send(timeout: timeout).failure
        }
        #expect(found == .timedOut(.head))
        await server.stop()
    }

    @Test func readsToTheEndOfATLSConnection() async throws {
        let server = try await MisbehavingServer.start(tls: certificates.server("named")) {
            $1.sayAndClose("HTTP/1.1 200 OK\r\n\r\nall of it")
        }
        let client = try await ClientHarness.make(port: server.port, host: "receiver.test", isTLS: true, trust: own)
        #expect(try await client.send() == .success(EndpointAnswer(status: 200, body: Array("all of it".utf8))))
        await server.stop()
    }

    @Test("A handshake alone tells when the certificate ends, sends nothing and leaves no connection")
    func handshakeAlone() async throws {
        let server = try await server("named")
        let client = try await ClientHarness.make(port: server.port, host: "receiver.test", isTLS: true, trust: own)
        let end = try await client.shakeHands().get()
        let certificate = try #require(NIOSSLCertificate.fromPEMFile(certificates.path("named.pem")).first)
        #expect(end.milliseconds == Int64(certificate.notValidAfter) * 1_000)
        #expect(try await client.connectionCount() == 0 && server.received.isEmpty)
        // The client is not used up by it.
        #expect(try await client.send().status == 200)
        try await client.close()
        await server.stop()
    }

    @Test("A handshake that fails says what a request would have said")
    func failedHandshake() async throws {
        for (name, host, trust) in [
            ("expired", "receiver.test", own), ("named", "wrong.test", own),
            ("named", "receiver.test", try EndpointTrust.system()),
        ] {
            let server = try await server(name)
            let client = try await ClientHarness.make(port: server.port, host: host, isTLS: true, trust: trust)
            let alone = try await client.shakeHands()
            let asked = try await client.send().failure
            guard case .failure(let failure) = alone else {
                Issue.record("\(name) for \(host) passed")
                continue
            }
            #expect(failure == asked)
            try await client.close()
            await server.stop()
        }
        let silent = try await MisbehavingServer.start(readsRequests: false) { _, _ in }
        let client = try await ClientHarness.make(port: silent.port, host: "receiver.test", isTLS: true, trust: own)
        var found: Result<Timestamp, RequestFailure>?
        for timeout in [Duration.seconds(5), .seconds(60)] where found != .failure(.timedOut(.handshaking)) {
            found = try await client.shakeHands(timeout: timeout)
        }
        #expect(found == .failure(.timedOut(.handshaking)))
        await silent.stop()
        let inside = try await ClientHarness.make(
            port: silent.port, host: "receiver.test", isTLS: true, allowsPrivate: false, trust: own)
        guard case .failure(.refusedAddress) = try await inside.shakeHands() else {
            Issue.record("the egress guard let a handshake through")
            return
        }
    }

    @Test func namesAFileThatHoldsNoAuthority() throws {
        for file in [certificates.path("ca.key"), certificates.path("absent.pem")] {
            let error = #expect(throws: EndpointTrust.Unusable.self) { try EndpointTrust.authorities(file: file) }
            #expect(error?.reason.contains(file) == true)
        }
    }

    private func server(_ name: String) async throws -> MisbehavingServer {
        try await MisbehavingServer.start(tls: certificates.server(name)) { $1.say($1.okText) }
    }

    /// Refused, and not one byte of the request was shown to the wrong server.
    private func expectRefusal(
        _ name: String, host: String, trust: EndpointTrust, saying words: String
    ) async throws {
        let server = try await server(name)
        let client = try await ClientHarness.make(port: server.port, host: host, isTLS: true, trust: trust)
        let failure = try await client.send().failure
        guard case .tlsFailed(let reason) = failure else {
            Issue.record("\(host): \(String(describing: failure))")
            return
        }
        #expect(reason.contains(words))
        #expect(server.received.isEmpty)
        await server.stop()
    }
}
