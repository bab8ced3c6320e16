import Foundation
import HTTPServer
import Glibc
import NIOCore
import NIOPosix
import Testing
import Vocabulary

/// Oracle: what the kernel says of the sockets, seen from a client's side.
@Suite struct ListenerTests {
    private func start(_ listen: Listen, tls: TLSFiles? = nil) async throws -> HTTPListener {
        try await HTTPListener.start(
            listener: listen, handler: TestHandler(), group: MultiThreadedEventLoopGroup.singleton, tls: tls)
    }

    @Test func saysWhereItListens() async throws {
        try await withServer { server in
            #expect(server.boundAddress.hasPrefix("127.0.0.1:") && server.boundAddress != "127.0.0.1:0")
        }
    }

    @Test("Started without accepting, it answers nobody before it is to accept, and then those that waited, too")
    func acceptsLater() async throws {
        // One thread for both listeners: what the second has answered, the first would have accepted before.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await HTTPListener.start(
            listener: .tcp(host: "127.0.0.1", port: 0), handler: TestHandler(), group: group, limits: .patient,
            accepting: false)
        let client = try RawClient(server.boundAddress)
        try await client.send(post("/echo", "x"))
        let other = try await HTTPListener.start(
            listener: .tcp(host: "127.0.0.1", port: 0), handler: TestHandler(), group: group, limits: .patient)
        #expect(try await RawClient(other.boundAddress).exchange(post("/echo", "y")).body == "y")
        #expect(server.openConnections == 0)
        await server.accept()
        #expect(try await client.answer().body == "x")
        for listener in [server, other] { #expect(await listener.drain(upTo: .seconds(600)) == 0) }
        try await group.shutdownGracefully()
    }

    @Test func namesAnAddressThatIsTaken() async throws {
        try await withServer { server in
            let port = try #require(server.boundAddress.split(separator: ":").last.flatMap { Int($0) })
            let error = await #expect(throws: HTTPServerError.self) {
                try await start(.tcp(host: "127.0.0.1", port: port))
            }
            #expect(error == .addressInUse(server.boundAddress))
        }
    }

    @Test func namesAnAddressThatIsElsewhere() async throws {
        // 192.0.2.0/24 is for documentation (RFC 5737): no machine has it.
        let error = await #expect(throws: HTTPServerError.self) { try await start(.tcp(host: "192.0.2.1", port: 0)) }
        #expect(error == .addressNotOfThisMachine("192.0.2.1:0"))
    }

    @Test func servesOnASocketFileAndRemovesIt() async throws {
        try await withFolder { folder in
            let path = folder + "/http.sock"
            try await withServer(listener: .unix(path: path)) { server in
                #expect(server.boundAddress == "unix:\(path)")
                let client = try RawClient(server.boundAddress)
                #expect(try await client.exchange(post("/echo", "x")).body == "x")
                #expect(try await client.exchange(post("/echo", "y")).body == "y")
                let error = await #expect(throws: HTTPServerError.self) { try await start(.unix(path: path)) }
                #expect(error == .addressInUse("unix:\(path)"))
                #expect(try await client.exchange(post("/echo", "z")).body == "z")
            }
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test func replacesASocketFileThatNobodyListensOn() async throws {
        try await withFolder { folder in
            let path = folder + "/http.sock"
            Glibc.close(try bound(path, listens: false))
            try await withServer(listener: .unix(path: path)) { server in
                let client = try RawClient(server.boundAddress)
                #expect(try await client.exchange(post("/echo", "x")).body == "x")
            }
        }
    }

    @Test func doesNotTouchAFileThatIsNoSocket() async throws {
        try await withFolder { folder in
            let path = folder + "/precious"
            try Data("text".utf8).write(to: URL(fileURLWithPath: path))
            let error = await #expect(throws: HTTPServerError.self) { try await start(.unix(path: path)) }
            guard case .socketPath(path, _) = error else { Issue.record("\(String(describing: error))"); return }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "text")
            let missing = await #expect(throws: HTTPServerError.self) {
                try await start(.unix(path: folder + "/no/x.sock"))
            }
            guard case .socketPath(folder + "/no/x.sock", _) = missing else {
                Issue.record("\(String(describing: missing))")
                return
            }
        }
    }

    @Test func servesOnAnInheritedSocket() async throws {
        try await withFolder { folder in
            let path = folder + "/inherited.sock"
            let descriptor = try bound(path, listens: true)
            // Asked before the server exists: the kernel keeps it.
            let early = try RawClient("unix:" + path)
            try await early.send(post("/echo", "early"))
            try await withServer(listener: .inherited(fileDescriptor: descriptor)) { server in
                #expect(server.boundAddress == "unix:\(path)")
                let answer = try await early.answer()
                #expect(answer.body == "early")
            }
            #expect(FileManager.default.fileExists(atPath: path), "an inherited socket's file is not ours to remove")
        }
    }

    @Test func servesOnAnInheritedSocketOfTCP() async throws {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try #require(descriptor >= 0 && listen(descriptor, 8) == 0)  // the kernel chooses address and port
        try await withServer(listener: .inherited(fileDescriptor: descriptor)) { server in
            #expect(server.boundAddress.hasPrefix("0.0.0.0:"))
            let client = try RawClient(server.boundAddress)
            #expect(try await client.exchange(post("/echo", "x")).body == "x")
        }
    }

    @Test("A listener whose socket fails says so; one that is drained does not")
    func failedSocket() async throws {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try #require(descriptor >= 0 && listen(descriptor, 8) == 0)
        let copy = dup(descriptor)
        defer { Glibc.close(copy) }
        let (failures, failure) = AsyncStream<String>.makeStream()
        func start(_ name: String, _ listen: Listen) async throws -> HTTPListener {
            try await HTTPListener.start(
                listener: listen, handler: TestHandler(), group: MultiThreadedEventLoopGroup.singleton,
                failed: { failure.yield(name) })
        }
        let drained = try await start("drained", .tcp(host: "127.0.0.1", port: 0))
        #expect(drained.isListening)
        await drained.drain(upTo: .zero)
        #expect(!drained.isListening)
        let server = try await start("failed", .inherited(fileDescriptor: descriptor))
        #expect(server.isListening)
        // From here on accept(2) fails with EINVAL.
        #expect(shutdown(copy, CInt(SHUT_RDWR)) == 0)
        var iterator = failures.makeAsyncIterator()
        let first = await iterator.next()
        #expect(first == "failed" && !server.isListening)
        await server.drain(upTo: .zero)
    }

    @Test func refusesADescriptorThatDoesNotListen() async throws {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { Glibc.close(descriptor) }
        for number in [descriptor, 1_000_000] {
            let error = await #expect(throws: HTTPServerError.self) {
                try await start(.inherited(fileDescriptor: number))
            }
            guard case .notAListeningSocket(number, _) = error else {
                Issue.record("\(String(describing: error))"); return
            }
        }
    }

    private func bound(_ path: String, listens: Bool) throws -> CInt {
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let result = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(result == 0)
        if listens { try #require(listen(descriptor, 8) == 0) }
        return descriptor
    }
}
