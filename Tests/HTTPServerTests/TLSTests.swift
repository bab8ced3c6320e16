import Foundation
import HTTPServer
import NIOPosix
import Testing
import Vocabulary

/// Oracle: OpenSSL's own client.
@Suite struct TLSTests {
    /// Makes a certificate for `name` that signs itself.
    private func certificate(_ folder: String, _ name: String) throws -> TLSFiles {
        let files = TLSFiles(certificate: "\(folder)/\(name).crt", key: "\(folder)/\(name).key")
        let made = try openssl(
            ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
                + ["-subj", "/CN=\(name)", "-keyout", files.key, "-out", files.certificate])
        try #require(made.status == 0)
        return files
    }

    private func openssl(_ arguments: [String], input: String = "") throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        let (input, written, output) = (Pipe(), Data(input.utf8), Pipe())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: written)
        if arguments.first != "s_client" { try input.fileHandleForWriting.close() }
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: data, as: UTF8.self))
    }

    private func ask(_ server: HTTPListener, trusting files: TLSFiles) async throws -> String {
        let address = server.boundAddress
        return try await offPool {
            let arguments = ["s_client", "-connect", address, "-CAfile", files.certificate, "-verify_return_error"]
            return try openssl(
                arguments + ["-quiet"], input: post("/echo", "secretly", headers: "Connection: close\r\n")
            ).output
        }
    }

    @Test func servesOverTLSAndTakesANewCertificate() async throws {
        try await withFolder { folder in
            let first = try certificate(folder, "first")
            let second = try certificate(folder, "second")
            try await withServer(tls: first) { server in
                #expect(try await ask(server, trusting: first).hasSuffix("\r\n\r\nsecretly"))
                #expect(server.speaksTLS)
                let (same, other) = (try first.load(), try second.load())
                #expect(!server.replaceTLS(same))
                #expect(server.replaceTLS(other))
                #expect(try await ask(server, trusting: second).hasSuffix("\r\n\r\nsecretly"))
                #expect(try await ask(server, trusting: first) == "")
            }
        }
    }

    @Test func aListenerWithoutTLSStaysSo() async throws {
        try await withFolder { folder in
            let files = try certificate(folder, "late")
            try await withServer { server in
                #expect(!server.speaksTLS)
                let certificate = try files.load()
                #expect(!server.replaceTLS(certificate))
                let client = try RawClient(server.boundAddress)
                try await client.send(post("/echo", "plain", headers: "Connection: close\r\n"))
                #expect(try await client.rest().hasSuffix("plain"))
            }
        }
    }

    @Test func aClientWithoutTLSGetsNoAnswer() async throws {
        try await withFolder { folder in
            try await withServer(tls: try certificate(folder, "only")) { server in
                let client = try RawClient(server.boundAddress)
                try await client.send(post("/echo", "plain"))
                #expect(((try? await client.rest()) ?? "").contains("HTTP/1.1") == false)
            }
        }
    }

    @Test func namesFilesThatCannotBeUsed() async throws {
        try await withFolder { folder in
            let (one, other) = (try certificate(folder, "one"), try certificate(folder, "other"))
            let mixed = TLSFiles(certificate: one.certificate, key: other.key)
            for files in [TLSFiles(certificate: "\(folder)/absent", key: one.key), mixed] {
                let error = await #expect(throws: HTTPServerError.self) {
                    try await HTTPListener.start(
                        listener: .tcp(host: "127.0.0.1", port: 0), handler: TestHandler(),
                        group: MultiThreadedEventLoopGroup.singleton, tls: files)
                }
                guard case .tls(files, _) = error else { Issue.record("\(String(describing: error))"); continue }
            }
        }
    }
}
