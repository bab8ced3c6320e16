import Foundation
import JSONText
import Testing
import Vocabulary

@testable import Inbound

/// Oracles: RFC 4648 section 10 and Foundation's encoder; the example of RFC 7515 appendix A.3 (ES256).
@Suite("Compact JWS")
struct CompactJWSTests {
    // MARK: Base64

    private static func decode(_ text: [UInt8]) -> [UInt8]? { Base64URL.decode(text[...]) }

    @Test(
        "The vectors of the RFC, without padding",
        arguments: [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ])
    func vectors(_ plain: String, _ text: String) {
        #expect(Base64URL.encode(Array(plain.utf8)) == Array(text.utf8))
        #expect(Self.decode(Array(text.utf8)) == Array(plain.utf8))
    }

    @Test("Every length and byte is as Foundation has it, in the other alphabet and without padding")
    func likeFoundation() {
        for length in 0..<300 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ length) }
            let expected = Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
                .replacing("=", with: "")
            #expect(Base64URL.encode(bytes) == Array(expected.utf8))
            // A slice that does not begin at 0.
            let text = Array("..".utf8) + Base64URL.encode(bytes)
            #expect(Base64URL.decode(text[2...]) == bytes)
        }
    }

    @Test(
        "What nobody would write is not read",
        arguments: [
            "Z", "Zg=", "Zg==", "Zm9vZ", "=", "Zm9v\n", " Zm9v", "Zm 9v", "Zm9+", "Zm9/", "Zh", "Zm9", "Zm9vYh",
            "Zm8\0", "Zmé", "Zm.v", "Z\u{7F}", "Zm9v=",
        ])
    func strict(_ text: String) {
        #expect(Self.decode(Array(text.utf8)) == nil)
    }

    /// Of all texts of two digits exactly those that `encode` writes are read; so of three.
    @Test("Every byte string has one text")
    func oneText() {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var pairs = 0
        var triples = 0
        for first in digits {
            for second in digits {
                if Self.decode([first, second]) != nil { pairs += 1 }
                for third in digits where Self.decode([first, second, third]) != nil { triples += 1 }
            }
        }
        #expect(pairs == 256 && triples == 65_536)
    }

    // MARK: The parts

    /// RFC 7515 appendix A.3.1.
    private static let example =
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
        + "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"

    @Test("The example of the RFC is read")
    func rfcExample() throws {
        let jws = try CompactJWS(Self.example.utf8)
        #expect(try jws.header.string("alg") == "ES256" && jws.header.count == 1)
        let payload = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}"
        #expect(jws.payload == Array(payload.utf8))
        #expect(jws.signature.count == 64 && jws.signature.starts(with: [14, 209, 33, 83]))
        #expect(jws.signingInput == Array(Self.example.utf8.prefix(Self.example.utf8.count - 87)))
        #expect(try CompactJWS.payload(of: Self.example.utf8) == jws.payload)
    }

    @Test("A JWS without a signature has an empty one; whoever checks it refuses it")
    func unsigned() throws {
        let jws = try CompactJWS("eyJhbGciOiJub25lIn0.e30.".utf8)
        #expect(jws.signature.isEmpty && jws.payload == Array("{}".utf8))
    }

    private static func malformed(_ text: String) -> CompactJWS.Malformed? {
        do {
            _ = try CompactJWS(text.utf8)
            return nil
        } catch {
            return error
        }
    }

    @Test("What is malformed says how, and quotes nothing")
    func malformed() {
        let long = String(repeating: "A", count: CompactJWS.textBytesMax + 1)
        let header = "eyJhbGciOiJFUzI1NiJ9"
        let cases: [(String, CompactJWS.Malformed)] = [
            ("", .notThreeParts), ("a.b", .notThreeParts), ("a.b.c.d", .notThreeParts), ("a.b.c.d.e", .notThreeParts),
            (long, .tooLong), ("\(header)=.e30.AA", .headerNotBase64URL), ("\(header).e3.AA", .payloadNotBase64URL),
            ("\(header).e30.AB", .signatureNotBase64URL),
            // {"alg":"ES256","crit":[]} and {"alg":"ES256","b64":true}
            ("eyJhbGciOiJFUzI1NiIsImNyaXQiOltdfQ.e30.AA", .unsupportedExtension),
            ("eyJhbGciOiJFUzI1NiIsImI2NCI6dHJ1ZX0.e30.AA", .unsupportedExtension),
            ("\(String(repeating: "A", count: CompactJWS.headerBytesMax + 1)).e30.AA", .tooLong),
            ("\(header).e30.\(String(repeating: "A", count: CompactJWS.signatureBytesMax + 1))", .tooLong),
        ]
        for (text, reason) in cases {
            #expect(Self.malformed(text) == reason, "\(text.prefix(60))")
            #expect(!reason.description.isEmpty && !reason.description.contains(header))
        }
        // [] and eight objects in one another.
        for text in ["W10.e30.AA", "eyJhIjp7ImEiOnsiYSI6eyJhIjp7ImEiOnsiYSI6eyJhIjp7ImEiOnt9fX19fX19fX0.e30.AA"] {
            guard case .headerUnreadable? = Self.malformed(text) else {
                Issue.record("\(text) was read")
                continue
            }
        }
    }
}
