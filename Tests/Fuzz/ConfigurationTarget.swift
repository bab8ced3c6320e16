import Foundation
import Vocabulary

@testable import Configuration

/// The configuration, from bytes to a checked value or to all that is wrong with it.
enum ConfigurationTarget {
    /// Stands for a secret that somebody wrote into the file; the corpus holds it in all the places where that happens.
    private static let written = "hunter2hunter2"
    /// What the references of the file lead to.
    private static let fetched = "fetched-a7Q"
    private static let signingKey = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
    private static let pem = "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n"

    private static let reader = SecretReader(
        environment: { name in
            switch name {
            case "K": signingKey
            case "CREDENTIALS_DIRECTORY": "/credentials"
            case "ABSENT": nil
            default: fetched
            }
        },
        readFile: { path, _ in
            if path.contains("absent") { return .failure(.notFound) }
            return .success(SecretReader.File(bytes: Array((path.hasSuffix("pem") ? pem : signingKey).utf8)))
        })

    static func run(isServing: Bool, _ bytes: [UInt8]) {
        let outcome = check(bytes, isServing ? .serve : .check)
        require((outcome.configuration == nil) == !outcome.errors.isEmpty, "neither a configuration nor an error")
        let rendered = outcome.render()
        require(
            rendered.unicodeScalars.allSatisfy { $0 == "\n" || $0 == "\t" || $0.value >= 0x20 && $0.value != 0x7F },
            "a control character for the terminal")
        for diagnostic in outcome.diagnostics { place(diagnostic, in: bytes) }
        secrets(rendered + outcome.errorLine, of: bytes)
        if isServing, outcome.configuration != nil {
            require(check(bytes, .check).configuration != nil, "serve takes what check refuses")
        } else if outcome.configuration != nil {
            require(check(bytes, .command).configuration != nil, "check takes what a command refuses")
        }
    }

    private static func check(_ bytes: [UInt8], _ purpose: Purpose) -> LoadOutcome {
        ConfigurationFile.checkText(bytes, fileName: "posthouse.toml", purpose: purpose, reader: reader, isRoot: true)
    }

    /// A place is inside the file, or right behind its last character.
    private static func place(_ diagnostic: Diagnostic, in bytes: [UInt8]) {
        for note in diagnostic.notes { place(note, in: bytes) }
        guard let span = diagnostic.span else { return }
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        require((1...lines.count).contains(span.line), "line \(span.line) of \(lines.count): \(diagnostic.message)")
        let scalars = lines[span.line - 1].count { $0 & 0xC0 != 0x80 }
        // Where a line ends in the middle of what was begun, the place is the line's end.
        require(
            (1...(scalars + 2)).contains(span.column),
            "column \(span.column) of \(scalars) in line \(span.line): \(diagnostic.message)")
    }

    // MARK: Secrets

    private static func secrets(_ rendered: String, of bytes: [UInt8]) {
        require(!rendered.contains(fetched), "a secret that was fetched is shown")
        require(!rendered.contains("QUFBQUFBQUFB"), "a signing key is shown")
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.contains(written), !text.contains("'''"), !text.contains("\"\"\"") else { return }
        let lines = text.split(whereSeparator: \.isNewline).filter { $0.contains(written) }
        // Elsewhere it is no secret, and may be shown: as a table's name, as the value of `name`.
        guard lines.allSatisfy(isSecret) else { return }
        require(!rendered.contains(written), "a secret in the file is shown: \(rendered)")
    }

    private static func isSecret(_ line: Substring) -> Bool {
        ["secret", "secrets", "token"].contains { key in line.hasPrefix("\(key) = \"\(written)") }
            || line.hasPrefix("url = \"postgresql://user:\(written)@")
            || line.hasPrefix("headers = { authorization = \"\(written)")
    }
}
