import Crypto
import Foundation

/// The App Store in this process: certificates that `posthouse send` has made, and notifications that are signed here
/// with the leaf's key, in the form of RFC 7515. The members are those of Apple's pages "responseBodyV2DecodedPayload"
/// and "JWSTransactionDecodedPayload".
struct AppStore: Sendable {
    static let bundleID = "com.example.app"

    /// That of the leaf.
    let key: P256.Signing.PrivateKey
    /// Leaf, intermediate, root: DER in base64.
    let certificates: [String]
    /// `[[source]]` named apple.
    let source: Relay.SourceTable

    init() throws {
        let directory = try ScratchDirectory()
        defer { directory.remove() }
        let chain = directory.path + "/chain"
        let making = try ChildProcess([
            try Relay.binary.get(), "send", "--url", "http://127.0.0.1:9/ingest/apple", "--kind", "apple", "--event",
            "DID_RENEW", "--user", "0a1b2c3d-0000-4000-8000-00000000000a", "--purchase", "o-1", "--chain", chain,
            "--print",
        ])
        guard making.waitForEnd(180) == .exited(0) else {
            throw HarnessFailure("no certificates: \(making.errors.joined(separator: "\n"))")
        }
        certificates = try ["leaf.pem", "intermediate.pem", "root.pem"].map { name in
            try String(contentsOfFile: "\(chain)/\(name)", encoding: .utf8)
                .split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()
        }
        guard let root = Data(base64Encoded: certificates[2]) else { throw HarnessFailure("root.pem is no PEM") }
        let text = try String(contentsOfFile: "\(chain)/leaf.key", encoding: .utf8)
        key = try P256.Signing.PrivateKey(pemRepresentation: text)
        let fingerprint = SHA256.hash(data: root).map { String(format: "%02x", $0) }.joined()
        let settings = ["bundle_ids": "[\"\(Self.bundleID)\"]", "roots": "[\"sha256:\(fingerprint)\"]"]
        source = .init(name: "apple", kind: "apple", secrets: [], settings: settings)
    }

    /// A compact JWS under the leaf's key.
    func sign(_ payload: String) throws -> String {
        let input = Self.signingInput(payload, under: certificates)
        return input + "." + Google.base64url(try key.signature(for: Data(input.utf8)).rawRepresentation)
    }

    /// Header and payload of a JWS.
    /// - Parameter more: members of the header, each with a comma behind it.
    static func signingInput(
        _ payload: String, algorithm: String = "ES256", under certificates: [String], more: String = ""
    ) -> String {
        let x5c = certificates.map { "\"\($0)\"" }.joined(separator: ",")
        let header = #"{\#(more)"alg":"\#(algorithm)","x5c":[\#(x5c)]}"#
        return Google.base64url(Data(header.utf8)) + "." + Google.base64url(Data(payload.utf8))
    }

    /// One period of a subscription, in milliseconds since 1970. The first transaction names the purchase.
    struct Period: Sendable {
        let purchase: String
        /// From 0.
        let number: Int
        let start: Int64
        let end: Int64
        var product = "plus.weekly"

        var transaction: String { number == 0 ? purchase : purchase + String(number) }
    }

    /// The body of a notification about a subscription.
    ///
    /// - Parameters:
    ///   - name: type and subtype, with a slash between them.
    ///   - at: `signedDate`, in milliseconds since 1970.
    ///   - token: `appAccountToken` of the transaction.
    ///   - status: 1 active, 2 expired.
    ///   - isRefunded: the transaction was refunded at that time.
    func notification(
        _ name: String, id: String, at: Int64, _ period: Period, token: String?, status: Int, isRefunded: Bool
    ) throws -> String {
        let names = name.split(separator: "/").map(String.init)
        let token = token.map { #","appAccountToken":"\#($0)""# } ?? ""
        let refund = isRefunded ? #","revocationDate":\#(at),"revocationReason":0,"revocationType":"REFUND_FULL""# : ""
        let transaction = try sign(
            #"""
            {"transactionId":"\#(period.transaction)","originalTransactionId":"\#(period.purchase)",
            "bundleId":"\#(Self.bundleID)","productId":"\#(period.product)","purchaseDate":\#(period.start),
            "expiresDate":\#(period.end),"quantity":1,"type":"Auto-Renewable Subscription",
            "inAppOwnershipType":"PURCHASED","signedDate":\#(at),"environment":"Production","price":990,
            "currency":"EUR"\#(token)\#(refund)}
            """#)
        let renewal = try sign(
            #"""
            {"originalTransactionId":"\#(period.purchase)","productId":"plus.weekly","signedDate":\#(at),
            "autoRenewProductId":"plus.weekly","autoRenewStatus":\#(status == 1 ? 1 : 0),"environment":"Production"}
            """#)
        let subtype = names.count > 1 ? #""subtype":"\#(names[1])","# : ""
        let payload = try sign(
            #"""
            {"notificationType":"\#(names[0])",\#(subtype)"notificationUUID":"\#(id)","version":"2.0",
            "signedDate":\#(at),"data":{"appAppleId":1,"bundleId":"\#(Self.bundleID)","bundleVersion":"7",
            "environment":"Production","signedTransactionInfo":"\#(transaction)","signedRenewalInfo":"\#(renewal)",
            "status":\#(status)}}
            """#)
        return #"{"signedPayload":"\#(payload)"}"#
    }
}
