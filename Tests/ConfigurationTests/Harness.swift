@testable import Configuration

/// A checked text with everything around it given by the test: no real environment, no real file.
struct Harness: Sendable {
    /// 32 bytes of 0x41.
    static let signingKey = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
    static let pem = "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n"

    var environment: [String: String] = ["S": "vendor secret", "K": Harness.signingKey]
    var files: [String: Result<SecretReader.File, SecretReader.Failure>] = [:]
    var purpose = Purpose.serve
    var fileName = "posthouse.toml"
    var isRoot = true
    /// Of the daemon that runs by the standard file.
    var daemonsCredentials: String?
    var libraries = LibraryChecks.none

    var reader: SecretReader {
        let (environment, files, daemonsCredentials) = (environment, files, daemonsCredentials)
        return SecretReader(
            environment: { environment[$0] }, readFile: { path, _ in files[path] ?? .failure(.notFound) },
            daemonsCredentials: { $0 == ConfigurationFile.standardPath ? daemonsCredentials : nil })
    }

    func check(_ text: String) -> LoadOutcome { check(Array(text.utf8)) }

    func check(_ bytes: [UInt8]) -> LoadOutcome {
        ConfigurationFile.checkText(
            bytes, fileName: fileName, purpose: purpose, reader: reader, libraries: libraries, isRoot: isRoot)
    }

    static func file(_ text: String, isReadableByOthers: Bool = false) -> Result<
        SecretReader.File, SecretReader.Failure
    > {
        .success(SecretReader.File(bytes: Array(text.utf8), isReadableByOthers: isReadableByOthers))
    }

    /// A source, five lines, and an integration, five more: line 11 is the next one, inside the integration.
    static let minimal = """
        [[source]]
        name = "purchasely"
        kind = "purchasely"
        secret = { env = "S" }

        [[integration]]
        name = "backend"
        url = "https://api.example.com/hooks"
        events = ["*"]
        secret = { env = "K" }

        """

    /// `line:column message` of each error.
    static func errors(_ text: String) -> [String] { places(Harness().check(text).errors) }
    static func warnings(_ text: String) -> [String] { places(Harness().check(text).warnings) }

    /// Adds lines to the integration (from line 11) or, with `source`, to the source (line 5, which is empty).
    static func with(_ integration: String = "", source: String = "") -> String {
        minimal.replacing("{ env = \"S\" }\n", with: "{ env = \"S\" }\n" + source) + integration
    }

    static func places(_ diagnostics: [Diagnostic]) -> [String] {
        diagnostics.map { diagnostic in
            (diagnostic.span.map { "\($0.line):\($0.column) " } ?? "") + diagnostic.message
        }
    }
}
