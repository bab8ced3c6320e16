@testable import Configuration
import Foundation
import Testing
import Vocabulary

/// The small pure readers, each against values worked out by hand.
@Suite struct PartsTests {
    @Test func durations() {
        let good: [(String, Duration)] = [
            ("250ms", .milliseconds(250)), ("5s", .seconds(5)), ("2m", .seconds(120)), ("24h", .seconds(86_400)),
            ("30d", .seconds(2_592_000)), ("0s", .zero),
        ]
        for (text, duration) in good { #expect(DurationText.read(text) == duration) }
        for text in [
            "", "5", "s", "-5s", "5 s", "5S", "1h30m", "1.5s", "5s ", "99999999999999999999s", "９s", "106751991168d",
        ] {
            #expect(DurationText.read(text) == nil, "\(text)")
        }
        #expect(DurationText.write(.seconds(86_400)) == "1d")
        #expect(DurationText.write(.milliseconds(1_500)) == "1500ms")
        #expect(DurationText.write(.zero) == "0ms")
    }

    @Test func sizes() {
        let good = [
            ("1MiB", 1 << 20), ("64KiB", 65_536), ("500B", 500), ("1MB", 1_000_000), ("2kB", 2_000), ("2KB", 2_000),
        ]
        for (text, bytes) in good { #expect(SizeText.read(text) == bytes) }
        for text in ["", "1", "MiB", "1 MiB", "1mib", "1.5MiB", "-1B", "9999999999GiB"] {
            #expect(SizeText.read(text) == nil, "\(text)")
        }
    }

    @Test(
        "An address to listen on is read, and written in its shortest form",
        arguments: [
            ("127.0.0.1:8080", ListenAddress.tcp(host: "127.0.0.1", port: 8080), "127.0.0.1:8080"),
            ("0.0.0.0:0", .tcp(host: "0.0.0.0", port: 0), "0.0.0.0:0"),
            ("[::1]:65535", .tcp(host: "::1", port: 65_535), "[::1]:65535"),
            ("[0:0:0:0:0:0:0:1]:80", .tcp(host: "::1", port: 80), "[::1]:80"),
            ("localhost:8080", .tcp(host: "127.0.0.1", port: 8080), "127.0.0.1:8080"),
            ("unix:/run/posthouse/http.sock", .unix(path: "/run/posthouse/http.sock"), "unix:/run/posthouse/http.sock"),
        ])
    func address(text: String, address: ListenAddress, written: String) throws {
        #expect(try ListenAddress(parsing: text) == address)
        #expect(address.text == written)
    }

    @Test(
        "Which listeners only an integration with allow_private reaches",
        arguments: [
            ("127.0.0.1:9400", true), ("localhost:9400", true), ("[::1]:9400", true), ("10.1.2.3:80", true),
            ("192.168.1.2:80", true), ("172.16.0.1:80", true), ("[fd00::1]:80", true), ("169.254.1.1:80", true),
            ("100.64.0.1:80", true), ("[::ffff:10.1.2.3]:80", true),
            ("0.0.0.0:9400", false), ("[::]:9400", false), ("8.8.8.8:80", false), ("unix:/run/x", false),
        ])
    func internalAddress(text: String, isInternal: Bool) throws {
        #expect(try ListenAddress(parsing: text).isInternal == isInternal)
    }

    @Test(
        "What is no address to listen on is refused with the reason",
        arguments: [
            "", ":", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
            "127.0.0.1:8o", "127.0.0.1:000080", "example.com:8080", "256.0.0.1:80", "::1:8080", "[::1]",
            "[127.0.0.1]:80", "[]:80", "[::1:80", "unix:", "unix:relative.sock", "unix:/", "unix:/folder/",
            "unix:/" + String(repeating: "x", count: 107), "unix:/nul\0", " 127.0.0.1:80", "http://127.0.0.1:80",
        ])
    func noAddress(text: String) {
        let mistake = #expect(throws: ListenMistake.self) { try ListenAddress(parsing: text) }
        #expect(mistake?.description.hasPrefix("\"\(text)\" ") == true)
    }

    @Test func endpoints() throws {
        let url = try EndpointText.read("HTTPS://API.example.com:8443/a/b?c=%20d")
        #expect(url == EndpointURL(isTLS: true, host: "api.example.com", port: 8443, target: "/a/b?c=%20d"))
        #expect(try EndpointText.read("http://[::1]?x").target == "/?x")
        #expect(try EndpointText.read("http://[::1]").host == "::1")
        for (host, verdict) in [
            ("10.0.0.1", .private("a private network")), ("11.0.0.1", .allowed),
            ("100.64.0.1", .private("carrier-grade NAT")), ("0.0.0.0", .impossible("unspecified")),
            ("[::ffff:10.0.0.1]", .private("a private network, inside an IPv6 address")),
            ("localhost", .private("loopback")), ("api.example.com", .allowed),
        ] as [(String, AddressVerdict)] {
            #expect(try EndpointText.read("http://\(host)").verdict == verdict, "\(host)")
        }
        #expect(try !EndpointText.read("http://10.0.0.1").isLocal)
    }

    @Test func distances() {
        #expect(NearMiss.distance("concurency", "concurrency") == 1)
        #expect(NearMiss.distance("recieved", "received") == 1)
        #expect(NearMiss.distance("", "abc") == 3)
        #expect(NearMiss.distance("kitten", "sitting") == 3)
        #expect(NearMiss.find("x", among: ["name", "url"]) == nil)
        #expect(NearMiss.find("Url", among: ["name", "url"]) == "url")
    }

    @Test func stateDirectories() {
        func resolve(_ environment: [String: String], isRoot: Bool = false, owned: String = "") -> String {
            StateDirectory.resolve(environment: { environment[$0] }, isRoot: isRoot, owns: { $0 == owned })
        }
        #expect(resolve(["STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "HOME": "/h"]) == "/var/lib/a")
        #expect(resolve(["HOME": "/root"], isRoot: true) == "/var/lib/posthouse")
        #expect(resolve(["HOME": "/h", "XDG_STATE_HOME": "/s"]) == "/s/posthouse")
        #expect(resolve(["HOME": "/h", "XDG_STATE_HOME": "relative"]) == "/h/.local/state/posthouse")
        #expect(resolve([:]) == "/var/lib/posthouse")
        // runuser keeps root's HOME: the daemon's user finds the daemon's cluster all the same.
        let cluster = "/var/lib/posthouse/cluster"
        #expect(resolve(["HOME": "/root", "XDG_STATE_HOME": "/s"], owned: cluster) == "/var/lib/posthouse")
        #expect(resolve(["HOME": "/h", "STATE_DIRECTORY": "/s"], owned: cluster) == "/s")
        // With a PostgreSQL of one's own there is no cluster, and a spool all the same.
        #expect(resolve(["HOME": "/var/lib/posthouse"], owned: "/var/lib/posthouse") == "/var/lib/posthouse")
    }

    @Test func theWholeOfAConfiguration() throws {
        let outcome = Harness().check(
            Harness.with(
                """
                schedule = ["1s", "2m"]
                jitter = 0
                give_up_after = "1d"
                permanent = [400, 400, 422]
                order = "none"
                format = "source"
                headers = { X-A = "b", X-C = { env = "S" } }

                """, source: "app = \"com.example\"\nenvironment = \"SANDBOX\"\nfreshness = \"5m\"\n")
                + "[server]\nlisten = \"[::1]:1\"\napi_listen = \"unix:/x\"\n[embedded]\ndirectory = \"/d\"\n"
                + "[database]\nurl = { env = \"S\" }\nschema = \"s\"\npooling = \"transaction\"\n"
                + "direct_url = { env = \"S\" }\n")
        let configuration = try #require(outcome.configuration, "\(outcome.render())")
        #expect(outcome.diagnostics.isEmpty)
        #expect(configuration.server.apiListen == .unix(path: "/x"))
        #expect(configuration.embedded.directory == "/d")
        #expect(configuration.database.url == Secret(Array("vendor secret".utf8)))
        #expect(!configuration.database.usesPrivateCluster)
        #expect(configuration.database.pooling == .transaction)
        #expect(configuration.database.directURL == Secret(Array("vendor secret".utf8)))
        let source = try #require(configuration.sources.first)
        #expect(source.app == "com.example" && source.defaultEnvironment == "SANDBOX")
        #expect(source.freshness == .seconds(300))
        let integration = try #require(configuration.integrations.first)
        #expect(
            integration.schedule
                == RetrySchedule(gaps: [.seconds(1), .seconds(120)], jitter: 0, giveUpAfter: .seconds(86_400)))
        #expect(integration.permanentStatuses == [400, 422])
        #expect(integration.headers.map(\.value) == [Secret(Array("b".utf8)), Secret(Array("vendor secret".utf8))])
        #expect(integration.order == .none && integration.format == .source)
    }

    @Test func filesOfTheSystem() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "secret")
        try Data("abc".utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file.path)
        let read = try SecretReader.system.readFile(file.path, 3).get()
        #expect(read.bytes == Array("abc".utf8) && read.isReadableByOthers)
        #expect(throws: SecretReader.Failure.larger(thanBytes: 2)) {
            try SecretReader.system.readFile(file.path, 2).get()
        }
        #expect(throws: SecretReader.Failure.notARegularFile) {
            try SecretReader.system.readFile(directory.path, 2).get()
        }
        #expect(throws: SecretReader.Failure.notFound) {
            try SecretReader.system.readFile(directory.appending(path: "none").path, 2).get()
        }
        let outcome = ConfigurationFile.load(path: directory.appending(path: "none").path, purpose: .serve)
        #expect(
            outcome.render().hasSuffix(
                "/none: error: cannot be read: no such file; --config FILE names another\n1 error\n"))
    }
}
