import Crypto
import Testing
import Vocabulary

@testable import Outbound

/// `v1a`. Oracles: RFC 8032 §7.1 for the scheme; for what is signed the vectors of two implementations, Svix' server
/// (`test_asymmetric_key_signing`) and the Go library of Standard Webhooks (`TestAsymmetricWebhookSign`); for other
/// bodies, PyPI `cryptography` made the signatures.
@Suite struct AsymmetricSignatureTests {
    private static let id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    private static let seconds: Int64 = 1_614_265_330
    private static let now = Timestamp(milliseconds: seconds * 1_000)
    private static let payload = "{\"test\": 2432232314}"
    /// The first half of Svix' key, and the second.
    private static let seed = "6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc="
    private static let publicKey = "1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
    private static let reference =
        "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
    private static let otherSeed = "VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk="
    private static let otherReference =
        "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="

    private static func bytes(_ base64: String) throws -> [UInt8] { try #require(Base64.decode(base64)) }

    private static func key(_ seed: String = seed) throws -> Integration.SigningKey {
        .asymmetric(seed: Secret(try bytes(seed)))
    }

    private static func shared() throws -> Integration.SigningKey {
        .symmetric(Secret(try bytes("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
    }

    /// TEST 1, 2, 3 and SHA(abc): seed, public key, message, signature.
    static let vectors = [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
                + "d25bf5f0595bbe24655141438e7a100b"
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
                + "387b2eaeb4302aeeb00d291612bb0c00"
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
                + "4a7c15e9716ed28dc027beceea1ec40a"
        ),
        (
            "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd"
                + "454d4423643ce80e2a9ac94fa54ca49f",
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
                + "3dca179c138ac17ad9bef1177331a704"
        ),
    ]

    private static func hex(_ text: String) -> [UInt8] {
        let digits = Array(text)
        return stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) }
    }

    @Test(arguments: vectors) func theSchemeIsThatOfTheRFC(
        seed: String, publicKey: String, message: String, signature: String
    ) throws {
        let key = try Ed25519.privateKey(seed: Secret(Self.hex(seed)))
        let published = try Ed25519.publicKey(Self.hex(publicKey))
        #expect(Array(key.publicKey.rawRepresentation) == Self.hex(publicKey))
        let made = try Ed25519.sign(Self.hex(message), with: key)
        #expect(made == Self.hex(signature))
        #expect(Ed25519.holds(made, of: Self.hex(message), for: published))
        #expect(!Ed25519.holds(made, of: Self.hex(message) + [0], for: published))
        for index in made.indices {
            var changed = made
            changed[index] ^= 1
            #expect(!Ed25519.holds(changed, of: Self.hex(message), for: published))
        }
        for other in [[], Array(made.dropLast()), made + [0]] {
            #expect(!Ed25519.holds(other, of: Self.hex(message), for: published))
        }
    }

    @Test(arguments: [
        (seed, payload, reference), (otherSeed, payload, otherReference),
        (seed, "", "v1a,B7QTtBWn3FCmEgaIAxfHcTQsVTvrObbZrn2ZpDIJT+aUREdLmLcUDsy+BgzSHOSWZ5c+W5sPYk5UnuCxv79UCQ=="),
        (
            seed, String(repeating: "é€😀", count: 100),
            "v1a,C1nUlYZnVpklhIHzjdZQYYhF8TnN+wl2at2aUQxBSHWOLUQTi22XDHp5uwlNi3OrZNXhbFLIPACRwtaolGlrBA=="
        ),
    ]) func signsLikeTheOthers(seed: String, payload: String, signature: String) throws {
        let signer = try StandardWebhooksSigner(keys: [try Self.key(seed)])
        let bytes = Array(payload.utf8)
        // However the body is cut into segments.
        for cut in [0, bytes.count / 3, bytes.count] {
            let body = [Array(bytes[..<cut]), [], Array(bytes[cut...])]
            #expect(try signer.signature(id: Self.id, unixSeconds: Self.seconds, body: body) == signature)
        }
    }

    /// A rotation from one kind of secret to the other: both sign, in their order, and either kind of receiver is
    /// content.
    @Test func everyKeySignsWhateverItsKind() throws {
        let keys = [try Self.shared(), try Self.key(), try Self.key(Self.otherSeed), try Self.shared()]
        let signature = try StandardWebhooksSigner(keys: keys).signature(
            id: Self.id, unixSeconds: Self.seconds, body: [Array(Self.payload.utf8)])
        let symmetric = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        #expect(signature == [symmetric, Self.reference, Self.otherReference, symmetric].joined(separator: " "))
        for key in keys { try verify(signature, keys: [key]) }
        try verify(signature, publicKeys: [try Self.bytes(Self.publicKey)])
    }

    @Test func verifiesByThePublicKeyAlone() throws {
        let publicKey = try Self.bytes(Self.publicKey)
        try verify(Self.reference, publicKeys: [publicKey])
        try verify(
            "v1,AAAA v2,x v1a, v1a,AAAA v1a,**** \(Self.otherReference) \(Self.reference)", publicKeys: [publicKey])
        typealias Refusal = StandardWebhooksVerifier.Refusal
        let asOther = Self.reference.dropFirst("v1a,".count)
        for signature in ["", "v1a", "v1a,", "v1,\(asOther)", "V1A,\(asOther)", String(asOther), Self.otherReference] {
            #expect(throws: Refusal.wrongSignature) { try verify(signature, publicKeys: [publicKey]) }
        }
        #expect(throws: Refusal.wrongSignature) {
            try verify(Self.reference, payload: Self.payload + " ", publicKeys: [publicKey])
        }
        #expect(throws: Refusal.wrongSignature) { try verify(Self.reference, keys: [Self.shared()]) }
        #expect(throws: Refusal.wrongSignature) { try verify(Self.reference) }
        #expect(throws: Refusal.tooOld) {
            try verify(
                Self.reference, publicKeys: [publicKey], now: Self.now.advanced(byMilliseconds: 300_001))
        }
    }

    /// A public key must never be taken for a shared secret: whoever has it could sign.
    @Test func aPublicKeyIsNoSecret() throws {
        let publicKey = try Self.bytes(Self.publicKey)
        let forged = try StandardWebhooksSigner(keys: [.symmetric(Secret(publicKey))]).signature(
            id: Self.id, unixSeconds: Self.seconds, body: [Array(Self.payload.utf8)])
        #expect(throws: StandardWebhooksVerifier.Refusal.wrongSignature) {
            try verify(forged, publicKeys: [publicKey])
        }
        #expect(throws: StandardWebhooksVerifier.Refusal.wrongSignature) {
            try verify("v1a," + forged.dropFirst(3), keys: [Self.key()])
        }
    }

    @Test func aKeyOfAnotherLengthIsRefusedAndNotShown() throws {
        for count in [0, 31, 33, 64] {
            let bytes = [UInt8](repeating: 0x41, count: count)
            #expect(throws: SigningFailure()) {
                try StandardWebhooksSigner(keys: [.asymmetric(seed: Secret(bytes))])
            }
            #expect(throws: SigningFailure()) {
                try StandardWebhooksVerifier(keys: [], publicKeys: [bytes], tolerance: .seconds(1))
            }
        }
        #expect(!"\(SigningFailure())\(SigningFailure().explanation)".contains("AAAA"))
        #expect(!"\(try Self.key())".contains("233"))
    }

    private func verify(
        _ signature: String, payload: String = payload, keys: [Integration.SigningKey] = [],
        publicKeys: [[UInt8]] = [], now: Timestamp = now
    ) throws {
        try StandardWebhooksVerifier(keys: keys, publicKeys: publicKeys, tolerance: .seconds(300)).verify(
            id: Self.id, timestamp: String(Self.seconds), signature: signature, body: [Array(payload.utf8)],
            now: now)
    }
}
