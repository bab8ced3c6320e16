import Crypto
import JSONText
import SwiftASN1
import Testing
import Vocabulary
import X509

@testable import Inbound

/// Oracle: Apple's own library for servers (PyPI app-store-server-library), which reads what `posthouse send` and the
/// tests sign, and is asked for its verdict on everything that is wrong.
@Suite(
    "What Apple's own library says",
    .enabled(
        if: VendorLibrary.has("appstoreserverlibrary"),
        "set POSTHOUSE_TEST_PYTHON to a Python with the package app-store-server-library"))
struct AppleLibraryTests {
    /// Prints `read` with what it read, or `refused`, for each case. Without online checks the chain must be valid at
    /// the signed date, as here. The test chains have no key identifiers, which its strict checks ask for.
    private static let script = """
        import base64, json, sys
        from appstoreserverlibrary.models.Environment import Environment
        from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException
        def verifier_of(case, root):
            verifier = SignedDataVerifier(
                [base64.b64decode(case[root])], False, Environment(case["environment"]), case["bundle"], case["app"])
            verifier._chain_verifier.enable_strict_checks = case["isStrict"]
            return verifier
        for line in open(sys.argv[1]):
            case = json.loads(line)
            verifier, inner = verifier_of(case, "root"), verifier_of(case, "innerRoot")
            try:
                read = verifier.verify_and_decode_notification(case["payload"])
                name = read.rawNotificationType + ("/" + read.rawSubtype if read.rawSubtype else "")
                said = [name, read.notificationUUID]
                data = read.data
                if data and data.signedTransactionInfo:
                    transaction = inner.verify_and_decode_signed_transaction(data.signedTransactionInfo)
                    said += [transaction.originalTransactionId, transaction.appAccountToken or "none"]
                if data and data.signedRenewalInfo:
                    said.append(inner.verify_and_decode_renewal_info(data.signedRenewalInfo).originalTransactionId)
                print("read", *said)
            except VerificationException as error:
                print("refused", error.status.name)
        """

    private struct Case: Encodable {
        var payload: String
        var root: String
        /// Of what is sealed inside.
        var innerRoot: String
        var bundle = AppleFixtures.bundleID
        var environment = "Production"
        var app = 1
        var isStrict = false

        init(_ payload: String, root: [UInt8], innerRoot: [UInt8] = AppleFixtures.chain.root) {
            self.payload = payload
            self.root = Base64.encode(root)
            self.innerRoot = Base64.encode(innerRoot)
        }

        init(body: [UInt8], root: [UInt8]) throws {
            let text = try JSONScan.topObject(body, depthMax: 1).writtenText("signedPayload")
            self.init(String(decoding: try #require(text), as: UTF8.self), root: root, innerRoot: root)
        }

        var body: [UInt8] { AppleFixtures.body(payload) }
    }

    private static let decoded = AppleFixtures.notification("DID_RENEW/BILLING_RECOVERY")
    private static let chain = try! AppleTestChain()

    private static func isAuthentic(_ one: Case) throws -> Bool {
        let root = try #require(Base64.decode(one.root))
        let source = appleSource(bundleIDs: [one.bundle], roots: [Array(SHA256.hash(data: root))])
        return Apple().authenticate(
            header: { _ in nil }, body: one.body, source: source, now: Timestamp(milliseconds: 0)) == .authentic
    }

    @Test("It reads every sample, by its strictest checks, as it is read here")
    func samples() throws {
        let chain = try AppleChain.make()
        var cases: [Case] = []
        for name in Apple().knownEventNames {
            for (environment, spelling) in [("PRODUCTION", "Production"), ("SANDBOX", "Sandbox")] {
                let request = SampleRequest(
                    eventName: name, holder: .user(AppleFixtures.token), storeTransactionID: "2000000000000002",
                    purchaseID: "2000000000000001", occurredAt: AppleFixtures.signedAt, eventID: "e-1",
                    environment: environment)
                let body = try Apple().signedSample(request, with: chain, bundleID: "com.example.own")
                var one = try Case(body: body, root: chain.root)
                (one.bundle, one.environment, one.isStrict) = ("com.example.own", spelling, true)
                one.app = Int(AppleSample.appAppleID)
                cases.append(one)
            }
        }
        let read = try VendorLibrary.run(Self.script, cases)
        try #require(read.count == cases.count && cases.count > 60)
        for (one, line) in zip(cases, read) {
            let said = line.split(separator: " ").map(String.init)
            #expect(said.first == "read", "\(line)")
            #expect(try Self.isAuthentic(one))
            let event = try Apple().normalise(one.body, header: { _ in nil }, from: appleSource())
            #expect(said.dropFirst().prefix(2) == [event.name, event.vendorEventID ?? ""], "\(line)")
            guard let purchase = event.purchase, said.count > 4 else { continue }
            #expect(said[3] == purchase.key, "\(line)")
            #expect(said[4].lowercased() == event.holder?.id, "\(line)")
        }
        #expect(read.count { $0.contains(AppleFixtures.token) } > 30)
    }

    @Test("It reads what the tests sign, and refuses whatever is refused here")
    func faults() throws {
        let payload = try AppleFixtures.payload(Self.decoded)
        let chain = Self.chain
        let good = try chain.jws(payload)
        let texts = chain.certificates.map { Base64.encode($0) }
        let strange: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 55_555, 1]
        let past = (from: 1_600_000_000, to: 1_650_000_000)
        var cases: [(name: String, one: Case, isRefusedThere: Bool)] = []
        func add(_ name: String, _ one: Case, isRefusedThere: Bool = true) { cases.append((name, one, isRefusedThere)) }
        func add(
            _ name: String, isRefusedThere: Bool = true, _ change: (inout AppleTestChain.Shape) -> Void
        ) throws {
            let other = try AppleTestChain(change)
            add(name, Case(try other.jws(payload), root: other.root), isRefusedThere: isRefusedThere)
        }
        // Certificates.
        try add("no mark on the leaf") { $0.leafMark = nil }
        try add("no mark on the intermediate") { $0.intermediateMark = nil }
        try add("marks exchanged") { ($0.leafMark, $0.intermediateMark) = ($0.intermediateMark, $0.leafMark) }
        try add("leaf of another issuer") { $0.leafIssuer = "Test Root" }
        try add("intermediate of another issuer") { $0.intermediateIssuer = "Test" }
        try add("leaf out of date") { $0.leafValidity = past }
        try add("intermediate out of date") { $0.intermediateValidity = past }
        try add("root out of date") { $0.rootValidity = past }
        try add("intermediate is no authority") { $0.intermediateConstraints = .notCertificateAuthority }
        try add("intermediate without constraints") { $0.intermediateConstraints = nil }
        try add("intermediate signs no certificates") { $0.intermediateUsage = KeyUsage(digitalSignature: true) }
        try add("strange critical extension") {
            $0.strange = Certificate.Extension(oid: strange, critical: true, value: [0x05, 0x00])
        }
        try add("key of another curve") { $0.isOfOtherCurve = true }
        // Stricter here.
        try add("leaf is an authority", isRefusedThere: false) {
            $0.leafConstraints = .isCertificateAuthority(maxPathLength: nil)
        }
        try add("leaf without a usage", isRefusedThere: false) { $0.leafUsage = nil }
        try add("leaf for another usage", isRefusedThere: false) { $0.leafUsage = KeyUsage(keyAgreement: true) }
        try add("intermediate without a usage", isRefusedThere: false) { $0.intermediateUsage = nil }
        // Whose chain it is.
        let other = try AppleTestChain()
        add("another root's", Case(try other.jws(payload), root: chain.root))
        var mixed = other
        mixed.root = chain.root
        add("the root's certificate beside another's", Case(try mixed.jws(payload), root: chain.root))
        mixed.intermediate = chain.intermediate
        add("another's leaf", Case(try mixed.jws(payload), root: chain.root))
        mixed.leaf = chain.leaf
        add("another's key", Case(try mixed.jws(payload), root: chain.root))
        for (name, x5c) in [
            ("one certificate", [texts[0]]), ("two certificates", [texts[0], texts[1]]),
            ("four certificates", texts + [texts[2]]), ("none", []),
            ("the intermediate for the leaf", [texts[1], texts[1], texts[2]]),
            ("certificates exchanged", [texts[1], texts[0], texts[2]]),
            ("something else for the leaf", ["AAAA", texts[1], texts[2]]),
        ] {
            add(name, Case(try chain.jws(payload, header: chain.header(x5c: x5c)), root: chain.root))
        }
        // The signature.
        for alg in ["none", "HS256", "ES384", "RS256"] {
            add(alg, Case(try chain.jws(payload, header: chain.header(alg: "\"\(alg)\"")), root: chain.root))
        }
        let input = AppleTestChain.signingInput(header: chain.header(), payload: payload)
        let signature = try chain.signature(input)
        add("no signature", Case(AppleTestChain.jws(input, []), root: chain.root))
        add("signature in DER", Case(AppleTestChain.jws(input, [UInt8](signature.derRepresentation)), root: chain.root))
        let changed = AppleTestChain.signingInput(
            header: chain.header(), payload: try AppleFixtures.payload(AppleFixtures.notification("DID_RENEW")))
        add(
            "signature of other words",
            Case(AppleTestChain.jws(changed, [UInt8](signature.rawRepresentation)), root: chain.root))
        add("two parts", Case(String(decoding: input, as: UTF8.self), root: chain.root))
        // What is signed.
        var app = Case(good, root: chain.root)
        app.bundle = "com.example.other"
        add("another app's", app)
        for environment in ["Xcode", "LocalTesting"] {
            let local = AppleFixtures.notification("DID_RENEW", data: [("environment", "\"\(environment)\"")])
            add(environment, Case(try chain.jws(AppleFixtures.payload(local)), root: chain.root))
        }

        let verdicts = try VendorLibrary.run(Self.script, [Case(good, root: chain.root)] + cases.map(\.one))
        try #require(verdicts.count == cases.count + 1 && cases.count > 35)
        #expect(
            verdicts[0] == "read DID_RENEW/BILLING_RECOVERY \(AppleFixtures.notificationUUID) 3000000000000001 "
                + "\(AppleFixtures.spelledToken) 3000000000000001")
        #expect(try Self.isAuthentic(Case(good, root: chain.root)))
        for (one, verdict) in zip(cases, verdicts.dropFirst()) {
            #expect(verdict.hasPrefix("refused") == one.isRefusedThere, "\(one.name): \(verdict)")
            #expect(try !Self.isAuthentic(one.one), "\(one.name)")
        }
    }
}
