// swift-tools-version: 6.2
import PackageDescription

/// One place for what every target of ours is compiled with.
let house: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioHTTP: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioTLS: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")

// The order of the targets is the way an event takes: Front and Inbound, the Ledger over Postgres, Outbound.
// Inbound and Outbound never import each other: they meet in the database (Tests/TidyTests holds the edges).
let package = Package(
    name: "posthouse",
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", exact: "1.0.2", traits: []),
    ],
    targets: [
        .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),
        .target(name: "CToml"),
        .target(name: "Vocabulary", swiftSettings: house),
        .target(name: "JSONText", swiftSettings: house),
        .target(name: "Postgres", dependencies: ["CLibpq"], swiftSettings: house),
        .target(name: "Systemd", dependencies: ["CSystemd"], swiftSettings: house),
        .target(
            name: "Front", dependencies: ["Vocabulary", nio, nioPosix, nioHTTP, nioTLS], swiftSettings: house),
        .target(
            name: "Inbound", dependencies: ["Vocabulary", "JSONText", "Front", "Ledger", crypto],
            swiftSettings: house),
        .target(
            name: "Ledger", dependencies: ["Vocabulary", "JSONText", "Postgres", crypto],
            swiftSettings: house),
        .target(
            name: "Outbound",
            dependencies: ["Vocabulary", "JSONText", "Ledger", crypto, nio, nioPosix, nioHTTP, nioTLS],
            swiftSettings: house),
        .executableTarget(
            name: "posthouse",
            dependencies: [
                "CToml", "Vocabulary", "JSONText", "Postgres", "Systemd", "Front", "Inbound", "Ledger", "Outbound",
                nio, nioPosix, nioHTTP, nioTLS, crypto,
                .product(name: "Subprocess", package: "swift-subprocess"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: house),
    ]
)
