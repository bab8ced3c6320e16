// swift-tools-version: 6.2
import PackageDescription

/// One place for what every target of ours is compiled with.
let sharedSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// Optimised in debug builds, too: tests search every order of webhooks with these, and what they search with compares
/// holders most of the time. Arithmetic is checked as it always is.
let optimised = sharedSettings + [.unsafeFlags(["-O"], .when(configuration: .debug))]

let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioHTTP: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let nioTLSEvents: Target.Dependency = .product(name: "NIOTLS", package: "swift-nio")
let nioTLS: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let certificates: Target.Dependency = .product(name: "X509", package: "swift-certificates")
let asn1: Target.Dependency = .product(name: "SwiftASN1", package: "swift-asn1")

// The order of the targets is the way an event takes: HTTPServer and Inbound, the Ledger over Postgres, Outbound and
// HTTPClient.
// Inbound and Outbound never import each other: they meet in the database (Tests/TidyTests holds the edges).
let package = Package(
    name: "posthouse",
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", exact: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", exact: "1.7.4"),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-system", exact: "1.8.1"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", exact: "1.0.2", traits: []),
    ],
    targets: [
        // The bindings to C and C++.
        .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
        .systemLibrary(name: "CLinux"),
        .target(name: "CToml"),

        // What everything speaks.
        .target(name: "Vocabulary", swiftSettings: optimised),
        .target(name: "JSONText", swiftSettings: sharedSettings),
        .target(name: "Linux", dependencies: ["CLinux"], swiftSettings: sharedSettings),

        // The outside world: a database, the service manager, HTTP, a private cluster, the configuration.
        .target(name: "Postgres", dependencies: ["CLibpq", "Linux"], swiftSettings: sharedSettings),
        .target(
            name: "Systemd",
            dependencies: [
                "CSystemd", "Linux", .product(name: "Subprocess", package: "swift-subprocess"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: sharedSettings),
        .target(
            name: "HTTPServer", dependencies: ["Linux", "Vocabulary", nio, nioPosix, nioHTTP, nioTLS],
            swiftSettings: sharedSettings),
        .target(
            name: "HTTPClient", dependencies: ["Linux", "Vocabulary", nio, nioPosix, nioHTTP, nioTLS, nioTLSEvents],
            swiftSettings: sharedSettings),
        .target(
            name: "Cluster",
            dependencies: [
                "Linux", "Vocabulary", .product(name: "Subprocess", package: "swift-subprocess"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            swiftSettings: sharedSettings),
        .target(name: "Configuration", dependencies: ["CToml", "Vocabulary", crypto], swiftSettings: sharedSettings),

        // The way of an event.
        .target(name: "Spool", dependencies: ["Linux", "Vocabulary"], swiftSettings: sharedSettings),
        .target(
            name: "Inbound",
            dependencies: [
                "Vocabulary", "JSONText", "HTTPServer", "Ledger", "Spool", crypto, cryptoExtras, certificates, asn1,
            ],
            swiftSettings: sharedSettings),
        .target(
            name: "Ledger", dependencies: ["Vocabulary", "JSONText", "Postgres", crypto],
            resources: [
                .embedInCode("Schema/Migrations/M0001_ledger.sql"), .embedInCode("Schema/Migrations/M0002_holders.sql"),
                .embedInCode("Schema/Migrations/M0003_operator.sql"),
                .embedInCode("Schema/Migrations/M0004_collation.sql"),
                .embedInCode("Schema/Migrations/M0005_leases.sql"),
                .embedInCode("Schema/Migrations/M0006_holder_changes.sql"),
                .embedInCode("Schema/Migrations/M0007_state_form.sql"),
                .embedInCode("Schema/Migrations/M0008_flat.sql"),
                .embedInCode("Schema/Migrations/M0009_by_time.sql"),
                .embedInCode("Schema/Migrations/M0010_sources.sql"),
                .embedInCode("Schema/Migrations/M0011_periods.sql"),
                .embedInCode("Schema/Migrations/M0012_answers.sql"),
                .embedInCode("Schema/Migrations/M0013_kept_links.sql"),
                .embedInCode("Schema/Migrations/M0014_access.sql"),
                .embedInCode("Schema/Migrations/M0015_ends.sql"),
                .embedInCode("Schema/Migrations/M0016_coverage.sql"),
                .embedInCode("Schema/Migrations/M0017_message_access.sql"),
                .embedInCode("Schema/Migrations/M0018_lock_salt.sql"),
                .embedInCode("Schema/Migrations/M0019_event_id.sql"),
                .embedInCode("Schema/Migrations/M0020_replica_identity.sql"),
                .embedInCode("Schema/Migrations/M0021_said_names.sql"),
                .embedInCode("Schema/Migrations/M0022_daemon_configuration.sql"),
            ],
            swiftSettings: sharedSettings),
        .target(
            name: "Outbound", dependencies: ["Vocabulary", "HTTPClient", "Ledger", crypto, nio],
            swiftSettings: sharedSettings),

        // What the app's backend asks.
        .target(
            name: "API", dependencies: ["Vocabulary", "JSONText", "HTTPServer", "Ledger", crypto],
            resources: [.embedInCode("openapi.json")], swiftSettings: sharedSettings),

        // What is judged of all of it for an operator.
        .target(
            name: "Doctor", dependencies: ["Configuration", "Ledger", "Linux", "Vocabulary"],
            swiftSettings: sharedSettings),
        .target(name: "Observing", dependencies: ["Linux", "Systemd", "Vocabulary"], swiftSettings: sharedSettings),
        .executableTarget(
            name: "posthouse",
            dependencies: [
                "API", "Cluster", "Configuration", "Doctor", "HTTPClient", "HTTPServer", "Inbound", "JSONText",
                "Ledger", "Linux", "Observing", "Outbound", "Postgres", "Spool", "Systemd", "Vocabulary", nio, nioPosix,
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: sharedSettings),

        // Tests mirror the sources; scenarios run the real binary.
        .target(
            name: "TestSupport", dependencies: ["CLibpq"], path: "Tests/TestSupport", swiftSettings: sharedSettings),
    ]
        + ([
            ("Vocabulary", []),
            ("JSONText", []),
            ("Linux", []),
            ("Spool", ["Linux", "Vocabulary"]),
            ("Postgres", ["TestSupport"]),
            ("Systemd", []),
            ("HTTPServer", ["Vocabulary", nio, nioEmbedded, nioPosix, nioTLS]),
            ("HTTPClient", ["Vocabulary", nio, nioEmbedded, nioPosix, nioTLS]),
            ("Cluster", ["Linux", "Vocabulary"]),
            ("Configuration", ["Vocabulary"]),
            (
                "Inbound",
                [
                    "HTTPServer", "JSONText", "Ledger", "Spool", "Vocabulary", nio, crypto, cryptoExtras, certificates,
                    asn1,
                ]
            ),
            ("Ledger", ["Vocabulary", "JSONText", "Postgres", "TestSupport"]),
            ("Doctor", ["Configuration", "Ledger", "Linux", "Vocabulary"]),
            ("Outbound", ["HTTPClient", "Ledger", "Postgres", "TestSupport", "Vocabulary", nio, nioPosix, crypto]),
            ("API", ["HTTPServer", "JSONText", "Ledger", "Postgres", "TestSupport", "Vocabulary"]),
            ("Observing", ["Linux", "Systemd", "Vocabulary"]),
        ] as [(String, [Target.Dependency])]).map { name, more in
            .testTarget(
                name: name + "Tests", dependencies: [.init(stringLiteral: name)] + more,
                // Schemathesis reads its own settings.
                exclude: name == "API" ? ["schemathesis.toml"] : [], swiftSettings: sharedSettings)
        } + [
            .testTarget(name: "TidyTests", swiftSettings: sharedSettings),
            .testTarget(
                name: "ScenarioTests", dependencies: ["posthouse", "TestSupport", "Vocabulary", crypto, cryptoExtras],
                swiftSettings: sharedSettings),
        ]
)
