@testable import Configuration
import Foundation
import Testing
import Vocabulary

/// config/posthouse.toml against the check itself: every documented key exists, every default is the one it says.
@Suite struct ReferenceTests {
    static let text: String = {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return (try? String(contentsOf: root.appending(path: "config/posthouse.toml"), encoding: .utf8)) ?? ""
    }()

    private static var setting: Regex<(Substring, Substring)> { /# ((?:[a-z_]+ = |\[\[).*)/ }
    private static var alternative: Regex<(Substring, Substring, Substring)> { /# or: (([a-z_]+) = .*)/ }

    /// The file with every commented key in force.
    static let uncommented = text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
        line.wholeMatch(of: setting).map { String($0.output.1) } ?? String(line)
    }

    /// One file for each `# or:`, which takes the place of the key above it.
    static let variants: [String] = uncommented.indices.compactMap { index in
        guard let match = uncommented[index].wholeMatch(of: alternative) else { return nil }
        var lines = uncommented
        let above = lines[..<index].lastIndex { $0.firstMatch(of: /^[a-z_]+ =/) != nil }
        guard let above else { return nil }
        lines[above] = String(match.output.1)
        return lines.joined(separator: "\n")
    }

    static let harness = Harness(
        environment: ["CREDENTIALS_DIRECTORY": "/run/credentials/posthouse", "PURCHASELY_SECRET": "shared"],
        files: [
            "/run/credentials/posthouse/purchasely-secret": Harness.file("shared\n"),
            "/run/credentials/posthouse/purchasely-secret-old": Harness.file("older\n"),
            "/run/credentials/posthouse/qonversion-token": Harness.file("qonversion's\n"),
            "/run/credentials/posthouse/app-secret": Harness.file("the app's\n"),
            "/run/credentials/posthouse/stripe-secret": Harness.file("whsec_abc\n"),
            "/run/credentials/posthouse/play-service-account": Harness.file("vendor secret\n"),
            "/etc/posthouse/google-keys.json": Harness.file("{}"),
            "/run/credentials/posthouse/api-token": Harness.file("0123456789abcdef\n"),
            "/run/credentials/posthouse/backend-secret": Harness.file(Harness.signingKey + "\n"),
            "/run/credentials/posthouse/backend-secret-old": Harness.file(Harness.signingKey),
            "/run/credentials/posthouse/backend-token": Harness.file("Bearer abc"),
            "/run/credentials/posthouse/database-url": Harness.file("postgresql://u:p@db/posthouse"),
            "/run/credentials/posthouse/database-direct-url": Harness.file("postgresql://u:p@db/posthouse"),
            "/etc/posthouse/purchasely-secret": Harness.file("shared"),
            "/etc/posthouse/tls.crt": Harness.file(Harness.pem),
            "/etc/posthouse/tls.key": Harness.file(Harness.pem),
            "/etc/posthouse/ca.pem": Harness.file(Harness.pem),
        ])

    @Test func theFileAsItIsStartsARelay() throws {
        #expect(!Self.text.isEmpty)
        let outcome = Harness(environment: [:]).check(Self.text)
        #expect(outcome.errors.isEmpty, "\(outcome.render())")
        #expect(Harness.places(outcome.warnings).allSatisfy { $0.hasPrefix("no `[[") })
        #expect(outcome.warnings.count == 2)
        #expect(outcome.configuration != nil)
    }

    @Test func everyCommentedKeyIsValid() throws {
        let outcome = Self.harness.check(Self.uncommented.joined(separator: "\n"))
        #expect(outcome.diagnostics.isEmpty, "\(outcome.render())")
        #expect(outcome.configuration?.integrations.first?.headers.map(\.name) == ["Authorization", "X-Relay"])
    }

    @Test func everyAlternativeIsValid() {
        #expect(Self.variants.count >= 11)
        for variant in Self.variants {
            let outcome = Self.harness.check(variant)
            #expect(outcome.diagnostics.isEmpty, "\(outcome.render())")
        }
    }

    /// Copied as it is, an example must not give a key the secret of another.
    @Test func noTwoKeysNameOneCredential() {
        var table = ""
        var users: [String: Set<String>] = [:]
        for line in Self.uncommented {
            if let header = line.wholeMatch(of: /\[+([a-z_]+)\]+/) { table = String(header.output.1) }
            guard let key = line.firstMatch(of: /^(?:# or: )?([a-z_]+) =/) else { continue }
            // A secret may be one of several in rotation.
            let name = key.output.1 == "secrets" ? "secret" : String(key.output.1)
            for match in line.matches(of: /credential = "([^"]+)"/) {
                users[String(match.output.1), default: []].insert("\(table).\(name)")
            }
        }
        #expect(users.count >= 10)
        for (credential, keys) in users { #expect(keys.count == 1, "\(credential): \(keys.sorted())") }
    }

    @Test func everySupportedKeyIsDocumented() throws {
        var table = ""
        var documented: Set<String> = []
        for line in Self.uncommented {
            if let header = line.wholeMatch(of: /\[+([a-z_]+)\]+/) { table = String(header.output.1) }
            if let key = line.firstMatch(of: /^(?:# or: )?([a-z_]+) =/) {
                documented.insert("\(table).\(key.output.1)")
            }
        }
        let supported = Schema.tables.flatMap { table in table.keys.map { "\(table.name).\($0.name)" } }
        #expect(documented == Set(supported))
    }

    /// The oracle is the check without the key: what the file calls the default must change nothing.
    @Test func theDefaultsAreTheDefaults() throws {
        let said = try #require(Self.harness.check(Self.uncommented.joined(separator: "\n")).configuration)
        let silent = try #require(Harness().check(Harness.minimal).configuration)
        #expect(said.server.listen == silent.server.listen)
        #expect(said.server.maxBodyBytes == silent.server.maxBodyBytes)
        #expect(said.database.poolConnections == silent.database.poolConnections)
        #expect(said.database.statementTimeout == silent.database.statementTimeout)
        #expect(said.database.durability == silent.database.durability)
        #expect(said.database.pooling == silent.database.pooling)
        #expect(said.database.namesDirectURL && !silent.database.namesDirectURL)
        #expect(said.database.schema == "posthouse" && silent.database.schema == nil)
        #expect(said.embedded == silent.embedded)
        #expect(said.spool == silent.spool)
        #expect(said.journal.detailPerSecond == silent.journal.detailPerSecond)
        #expect(silent.journal.format == nil)
        #expect(said.retention == silent.retention)
        let (source, plainSource) = (try #require(said.sources.first), try #require(silent.sources.first))
        #expect(source.authentication == plainSource.authentication)
        #expect(source.defaultEnvironment == plainSource.defaultEnvironment)
        #expect(source.freshness == plainSource.freshness)
        #expect(source.leeway == plainSource.leeway)
        #expect(source.spooling == plainSource.spooling)
        for kind in SourceKind.allCases where kind != source.kind {
            guard let said = said.sources.first(where: { $0.kind == kind }) else { continue }
            let text = SourceTraitsTests.text(kind.rawValue)
            let plain = try #require(Harness().check(text).configuration?.sources.first)
            #expect(said.authentication == plain.authentication && said.ownership == plain.ownership)
            #expect(said.restore == plain.restore && said.merges == plain.merges)
            #expect(said.freshness == plain.freshness && said.settings == plain.settings)
        }
        let (stated, plain) = (try #require(said.integrations.first), try #require(silent.integrations.first))
        #expect(stated.format == plain.format)
        #expect(stated.timeout == plain.timeout)
        #expect(stated.schedule.gaps == plain.schedule.gaps)
        #expect(stated.schedule.jitter == plain.schedule.jitter)
        #expect(stated.permanentStatuses == plain.permanentStatuses)
        #expect(stated.concurrency == plain.concurrency)
        #expect(stated.order == plain.order)
        #expect(stated.confirmTimeout == plain.confirmTimeout)
        #expect(stated.allowsPrivateAddresses == plain.allowsPrivateAddresses)
    }
}
