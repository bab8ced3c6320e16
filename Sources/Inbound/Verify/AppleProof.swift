internal import Crypto
internal import JSONText
internal import Vocabulary

/// The proof of an App Store Server Notification, version 2: the body is `{"signedPayload": JWS}`, no header proves
/// anything, and there is no secret (developer.apple.com/documentation/appstoreservernotifications).
///
/// Apple signs the notifications of every developer's app with one key, so the app is part of the proof: whoever has a
/// developer account can get an authentic notification of an app of their own, with any account token in it.
struct AppleProof: Sendable {
    typealias Refusal = Authenticity.Refusal

    let chains = AppleChainCache()

    private static let algorithm = "ES256"
    /// Leaf, intermediate, root.
    private static let certificatesCount = 3
    /// Bytes of one certificate; Apple's have some 1,200. What anybody may send is not parsed beyond it.
    private static let certificateBytesMax = 4 << 10
    /// The members of which a payload has one, and which name the app, as far as they are known here.
    static let subjects = ["data", "summary", "appData", externalPurchase]
    /// The only one without an environment of its own.
    static let externalPurchase = "externalPurchaseToken"

    /// Checks a body. In this order: the form, the root by its fingerprint, the chain, the signature, and only then
    /// anything that the payload says: the time of the chain's validity, the app, the environment.
    ///
    /// Validity is judged at the payload's `signedDate`, not now: a retry repeats the signed payload, up to days later.
    func check(_ body: [UInt8], _ settings: AppleSettings) throws(Refusal) {
        let jws = try Self.jws(in: body)
        let chain = try chain(of: jws.header, roots: settings.roots)
        // Raw r and s of 32 bytes each (RFC 7518 section 3.4), never DER.
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: jws.signature) else {
            throw Refusal.malformedPayloadSignature
        }
        guard chain.key.isValidSignature(signature, for: jws.signingInput) else { throw Refusal.wrongPayloadSignature }
        let payload: JSONObject
        do {
            payload = try JSONScan.topObject(jws.payload, depthMax: Limits.jsonDepthMax)
        } catch {
            throw Refusal.unreadablePayload
        }
        guard let signedAt = try? payload.integer("signedDate") else { throw Refusal.unreadablePayload }
        guard chain.isValid(at: Timestamp(milliseconds: signedAt)) else { throw Refusal.expiredCertificate }
        try Self.checkSubject(of: payload, settings)
    }

    private static func jws(in body: [UInt8]) throws(Refusal) -> CompactJWS {
        guard let envelope = try? JSONScan.topObject(body, depthMax: Limits.jsonDepthMax),
            let text = envelope.writtenText("signedPayload")
        else { throw Refusal.missingSignedPayload }
        do {
            return try CompactJWS(text)
        } catch {
            throw Refusal.malformedSignedPayload
        }
    }

    /// Other members of the header (`kid`, `jwk`, `jku`, `x5u`) say nothing here.
    private func chain(of header: JSONObject, roots: [[UInt8]]) throws(Refusal) -> AppleProvenChain {
        guard let algorithm = try? header.string("alg"), algorithm == Self.algorithm else {
            throw Refusal.unsupportedAlgorithm
        }
        guard let count = try? header.elementCount("x5c"), count == Self.certificatesCount else {
            throw Refusal.wrongCertificateCount
        }
        let texts = (try? header.texts("x5c")) ?? []
        // Base64 of the usual alphabet with padding, unlike the rest of a JWS (RFC 7515 section 4.1.6).
        let certificates = texts.compactMap { Base64.decode($0) }
        guard certificates.count == Self.certificatesCount,
            certificates.allSatisfy({ $0.count <= Self.certificateBytesMax })
        else { throw Refusal.malformedCertificate }
        return try chains.chain(
            leaf: certificates[0], intermediate: certificates[1], root: certificates[2], roots: roots)
    }

    /// Apple adds members with new types (`appData` in 2025, `unclaimInfo` in 2026): one that names an app counts like
    /// those that are known, so that the first notification with it is not lost.
    private static func checkSubject(of payload: JSONObject, _ settings: AppleSettings) throws(Refusal) {
        var isNamed = false
        for key in payload.keys {
            guard let subject = try? payload.object(key) else { continue }
            let isKnown = subjects.contains(key)
            guard let bundleID = try? subject.string("bundleId"), !bundleID.isEmpty else {
                if isKnown { throw Refusal.missingBundleID }
                continue
            }
            guard settings.bundleIDs.contains(where: { $0.hasSameBytes(as: bundleID) }) else {
                throw Refusal.foreignBundleID
            }
            isNamed = true
            if key == externalPurchase || !isKnown && subject.rawRange("environment") == nil { continue }
            // Xcode and LocalTesting are not signed by Apple: anybody can make them.
            guard let environment = try? subject.string("environment"),
                environment == "Sandbox" || environment == "Production"
            else { throw Refusal.foreignEnvironment }
        }
        if !isNamed { throw Refusal.missingBundleID }
    }
}
