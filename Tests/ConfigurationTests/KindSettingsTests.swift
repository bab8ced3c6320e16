@testable import Configuration
import Testing
import Vocabulary

/// The keys that only one kind of source has. Oracle: posthouse.toml(5), and Apple's root certificate as openssl prints
/// its fingerprint.
@Suite struct KindSettingsTests {
    private static let fingerprint =
        "63:34:3A:BF:B8:9A:6A:03:EB:B5:7E:9B:3F:5F:A7:BE:7C:4F:5C:75:6F:30:17:B3:A8:C4:88:C3:65:3E:91:79"
    private static let bytes = fingerprint.split(separator: ":").compactMap { UInt8($0, radix: 16) }

    private static func settings(_ kind: String, _ lines: String = "") -> KindSettings? {
        SourceTraitsTests.check(kind, lines).configuration?.sources.first?.settings
    }

    // MARK: apple

    @Test func applesDefaults() {
        #expect(Self.bytes.count == 32)
        #expect(
            Self.settings("apple")
                == .apple(AppleSettings(bundleIDs: ["com.example.app"], roots: [Self.bytes], accountToken: .user)))
    }

    @Test func applesKeys() {
        let lines =
            "roots = [\"sha256:\(Self.fingerprint)\", \"sha256:\(String(repeating: "0a", count: 32))\"]\n"
            + "account_token = \"anonymous\"\napp = \"shop\"\nenvironment = \"SANDBOX\"\n"
        let other = [UInt8](repeating: 0x0A, count: 32)
        #expect(
            Self.settings("apple", lines)
                == .apple(
                    AppleSettings(
                        bundleIDs: ["com.example.app"], roots: [Self.bytes, other], accountToken: .anonymous)))
        let bare = Self.fingerprint.replacing(":", with: "").lowercased()
        #expect(Self.settings("apple", "roots = [\"sha256:\(bare)\"]\n") == Self.settings("apple"))
    }

    @Test func severalApps() {
        let text = SourceTraitsTests.text("apple").replacing("app\"]", with: "app\", \"com.example.App-2\"]")
        let source = Harness().check(text).configuration?.sources.first
        guard case .apple(let apple) = source?.settings else {
            Issue.record("no source")
            return
        }
        #expect(apple.bundleIDs == ["com.example.app", "com.example.App-2"] && source?.secrets.isEmpty == true)
    }

    @Test func appleNeedsItsApps() {
        let missing = SourceTraitsTests.text("apple").replacing("bundle_ids = [\"com.example.app\"]", with: "")
        #expect(
            Harness.errors(missing) == [
                "1:1 `[[source]]` of kind `apple` needs `bundle_ids`: an array of bundle ids such as [\"com.example.app\"]"
            ])
        let empty = SourceTraitsTests.text("apple").replacing("\"com.example.app\"", with: "")
        #expect(
            Harness.errors(empty) == ["4:14 `bundle_ids` is empty, so no notification would be authentic"])
        for (value, expected) in [
            (
                "\"com.example.app\"",
                "4:14 `bundle_ids` must be an array of bundle ids such as [\"com.example.app\"], not a string"
            ),
            (
                "[1]",
                "4:15 `bundle_ids` must be an array of bundle ids such as [\"com.example.app\"]; this is an integer"
            ),
            ("[\"\"]", "4:15 `bundle_ids` must not be empty"),
            ("[\"com example\"]", "4:15 `com example` is not a bundle id: it has 1 to 255 of A-Z a-z 0-9 . -"),
        ] {
            let text = SourceTraitsTests.text("apple").replacing("[\"com.example.app\"]", with: value)
            #expect(Harness.errors(text) == [expected])
        }
    }

    /// What is signed by the store has no secret of ours, whatever is in the file.
    @Test(arguments: ["secret = { env = \"S\" }", "secret = \"hunter2\"", "secrets = [{ env = \"S\" }]"])
    func appleHasNoSecret(_ line: String) {
        let outcome = SourceTraitsTests.check("apple", line + "\n")
        let key = line.prefix { $0 != " " }
        #expect(
            Harness.places(outcome.errors)
                == [
                    "5:1 `\(key)` means nothing for kind `apple`, whose webhooks are signed by the store itself; remove it"
                ])
        #expect(!outcome.render().contains("hunter2"))
    }

    @Test func appleHasNoFreshness() {
        for value in ["5m", "off"] {
            #expect(
                Harness.places(SourceTraitsTests.check("apple", "freshness = \"\(value)\"\n").errors)
                    == [
                        "5:1 `freshness` means nothing for kind `apple`, only for `purchasely`, `qonversion`, `apphud`, "
                            + "`revenuecat`, `adapty`, `sessions` and `stripe`; remove it"
                    ])
        }
    }

    static let slips: [(kind: String, line: String, expected: String)] = [
        (
            "apple", "roots = \"sha256:00\"",
            "5:9 `roots` must be an array of SHA-256 fingerprints of certificates such as [\"sha256:63343abf…\"], "
                + "not a string"
        ),
        (
            "apple", "roots = []", "5:9 `roots` is empty; leave it out for Apple's own root certificate"
        ),
        ("apple", "roots = [\"sha256:00\"]", "5:10 `sha256:00` is not a fingerprint: \(form)"),
        (
            "apple", "roots = [\"\(String(repeating: "00", count: 32))\"]",
            "5:10 `\(String(repeating: "00", count: 32))` is not a fingerprint: \(form)"
        ),
        (
            "apple", "account_token = \"usr\"",
            "5:17 `account_token` must be \"user\" or \"anonymous\", not `usr`; did you mean `user`?"
        ),
        ("apple", "account_token = true", "5:17 `account_token` must be \"user\" or \"anonymous\", not a boolean"),
        ("apple", "bundle_id = \"a\"", "5:1 unknown key `bundle_id`; did you mean `bundle_ids`?"),
        ("apple", "user_key = \"a\"", "5:1 `user_key` means nothing for kind `apple`, only for `stripe`; remove it"),
        (
            "stripe", "user_key = 1",
            "5:12 `user_key` must be a key of Stripe's metadata such as \"user_id\", not an integer"
        ),
        ("stripe", "user_key = \"\"", "5:12 `user_key` must not be empty"),
        ("stripe", "user_kye = \"a\"", "5:1 unknown key `user_kye`; did you mean `user_key`?"),
        (
            "stripe", "bundle_ids = [\"a\"]",
            "5:1 `bundle_ids` means nothing for kind `stripe`, only for `apple`; remove it"
        ),
        (
            "stripe", "roots = [\"sha256:\(fingerprint)\"]",
            "5:1 `roots` means nothing for kind `stripe`, only for `apple`; remove it"
        ),
        (
            "purchasely", "account_token = \"user\"",
            "5:1 `account_token` means nothing for kind `purchasely`, only for `apple`; remove it"
        ),
    ]
    private static let form =
        "write \"sha256:\" and 64 hex digits, with or without colons, as `openssl x509 -noout -fingerprint -sha256` "
        + "prints them"

    @Test(arguments: slips) func slipsStandAtTheirPlace(_ kind: String, _ line: String, _ expected: String) {
        #expect(Harness.places(SourceTraitsTests.check(kind, line + "\n").diagnostics) == [expected])
    }

    /// Where the colons are counts: a digit that fell out must not shift the others.
    @Test func fingerprintsAreReadStrictly() {
        let colons = Self.fingerprint
        for wrong in [
            String(colons.dropLast()), colons + ":", colons + "00", colons.replacing("63:34", with: "6334:"),
            colons.replacing("63:34", with: "633:4"), colons.replacing("63", with: "6g"), " " + colons,
        ] {
            #expect(SourceTraitsTests.check("apple", "roots = [\"sha256:\(wrong)\"]\n").errors.count == 1, "\(wrong)")
        }
        #expect(SourceTraitsTests.check("apple", "roots = [\"SHA256:\(colons)\"]\n").errors.count == 1)
    }

    // MARK: stripe

    @Test func stripesKeys() {
        #expect(Self.settings("stripe") == .stripe(StripeSettings(userKey: "user_id")))
        #expect(
            Self.settings("stripe", "user_key = \"client_reference_id\"\n")
                == .stripe(StripeSettings(userKey: "client_reference_id")))
        #expect(Self.settings("purchasely") == KindSettings.none)
    }

    /// Each attempt is signed anew, so an old signature is none of a retry.
    @Test func stripesFreshness() {
        func freshness(_ lines: String) -> Duration? {
            SourceTraitsTests.check("stripe", lines).configuration?.sources.first?.freshness
        }
        #expect(freshness("") == .seconds(300) && freshness("freshness = \"1h\"\n") == .seconds(3_600))
        #expect(freshness("freshness = \"off\"\n") == nil)
        #expect(freshness("auth = \"none\"\n") == nil)
    }

}
