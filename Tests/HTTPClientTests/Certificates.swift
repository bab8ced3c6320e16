import Foundation
import NIOSSL

@testable import HTTPClient

/// An authority and certificates of it, made with the openssl command in a directory that goes away with the process's
/// temporary files.
struct Certificates: Sendable {
    let directory: URL
    var authorityFile: String { directory.appendingPathComponent("ca.pem").path }

    struct Failed: Error { let command: [String] }

    static let shared = Result { try Certificates() }

    private init() throws {
        directory = FileManager.default.temporaryDirectory.appendingPathComponent("outbound-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        for authority in ["ca", "other"] {
            try run([
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=\(authority)", "-keyout", "\(authority).key", "-out", "\(authority).pem",
            ])
        }
        try issue("named", san: "DNS:receiver.test,DNS:*.wild.test", days: 2)
        try issue("literal", san: "IP:127.0.0.1,IP:::1", days: 2)
        try issue("expired", san: "DNS:receiver.test", days: -1)
    }

    private func issue(_ name: String, san: String, days: Int) throws {
        try "subjectAltName=\(san)\n".write(
            to: directory.appendingPathComponent("\(name).ext"), atomically: true, encoding: .utf8)
        try run([
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=\(name)", "-keyout",
            "\(name).key", "-out", "\(name).csr",
        ])
        try run([
            "x509", "-req", "-in", "\(name).csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
            String(days), "-extfile", "\(name).ext", "-out", "\(name).pem",
        ])
    }

    private func run(_ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.currentDirectoryURL = directory
        process.standardError = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(command: arguments) }
    }

    func path(_ name: String) -> String { directory.appendingPathComponent(name).path }

    func server(_ name: String) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(path("\(name).pem")).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: path("\(name).key"), format: .pem)))
        configuration.applicationProtocols = ["http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }
}
