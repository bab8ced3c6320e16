import Foundation
import HTTPServer
import NIOCore
import NIOPosix
import Synchronization
import Testing
import Vocabulary

/// The handler of these tests. `/echo` answers on the loop with the body, `/held` hands request and responder to the
/// test, `/hello` is for GET; everything else is 404 or 405.
final class TestHandler: IncomingHandler {
    struct Held: Sendable {
        let request: IncomingRequest
        let responder: Responder
    }

    struct Rejected: Sendable, Equatable {
        let path: String?
        let status: Int
    }

    private let held: AsyncStream<Held>
    private let hold: AsyncStream<Held>.Continuation
    private let rejections: AsyncStream<Rejected>
    private let reject: AsyncStream<Rejected>.Continuation
    private let log = Mutex<[Rejected]>([])
    private let heads = Atomic<Int>(0)
    let bodyBytesMax: Int
    let answerTimeout: Duration

    init(bodyBytesMax: Int = 1 << 20, answerTimeout: Duration = .seconds(600)) {
        (held, hold) = AsyncStream.makeStream()
        (rejections, reject) = AsyncStream.makeStream()
        self.bodyBytesMax = bodyBytesMax
        self.answerTimeout = answerTimeout
    }

    var rejected: [Rejected] { log.withLock { $0 } }
    var headsCount: Int { heads.load(ordering: .relaxed) }

    func admit(_ head: IncomingHead) -> Admission {
        heads.wrappingAdd(1, ordering: .relaxed)
        return switch (head.method, head.path) {
        case ("POST", "/echo"), ("POST", "/held"), ("GET", "/hello"):
            .accept(bodyBytesMax: bodyBytesMax, answerTimeout: answerTimeout, timeoutAnswer: .text(503, "too late\n"))
        case (_, "/echo"), (_, "/held"):
            .refuse(.text(405, "POST only\n", headers: [("allow", "POST")]))
        default: .refuse(.text(404, "nothing here\n"))
        }
    }

    func respond(to request: IncomingRequest, with responder: Responder) {
        switch request.head.path {
        case "/hello": responder.respond(.text(200, "hello \(request.head.query ?? "you")\n"))
        case "/held": hold.yield(Held(request: request, responder: responder))
        default: responder.respond(HTTPAnswer(status: 200, body: request.body))
        }
    }

    func rejected(_ head: IncomingHead?, status: Int, reason: String) {
        log.withLock { $0.append(Rejected(path: head?.path, status: status)) }
        reject.yield(Rejected(path: head?.path, status: status))
    }

    func nextRejected() async throws -> Rejected {
        var iterator = rejections.makeAsyncIterator()
        return try #require(await iterator.next())
    }

    func nextHeld() async throws -> Held {
        var iterator = held.makeAsyncIterator()
        return try #require(await iterator.next())
    }
}

/// Starts a server for the length of `body` and drains it afterwards.
func withServer(
    handler: TestHandler = TestHandler(), listener: Listen = .tcp(host: "127.0.0.1", port: 0), tls: TLSFiles? = nil,
    limits: HTTPServerLimits = .patient, _ body: (HTTPListener) async throws -> Void
) async throws {
    let server = try await HTTPListener.start(
        listener: listener, handler: handler, group: MultiThreadedEventLoopGroup.singleton, tls: tls, limits: limits)
    do { try await body(server) } catch {
        await server.drain(upTo: .zero)
        throw error
    }
    await server.drain(upTo: .zero)
}

extension HTTPServerLimits {
    /// Of a server whose test is not about its waits: a busy machine stands still for longer than those of a real one.
    static var patient: HTTPServerLimits {
        var limits = HTTPServerLimits()
        limits.headTimeout = .seconds(600)
        limits.bodyTimeout = .seconds(600)
        limits.keepAliveIdleTimeout = .seconds(600)
        limits.lastAnswerTimeout = .seconds(600)
        limits.lingerTimeout = .seconds(600)
        return limits
    }
}

/// A folder that is gone after `body`; short enough for the path of a socket.
func withFolder(_ body: (String) async throws -> Void) async throws {
    let folder = NSTemporaryDirectory() + "http-\(UInt32.random(in: 0 ... .max))"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    do { try await body(folder) } catch {
        try? FileManager.default.removeItem(atPath: folder)
        throw error
    }
    try FileManager.default.removeItem(atPath: folder)
}

func post(_ path: String, _ body: String, headers: String = "") -> String {
    "POST \(path) HTTP/1.1\r\nHost: test\r\nContent-Length: \(body.utf8.count)\r\n\(headers)\r\n\(body)"
}

extension Listen {
    static func tcp(host: String, port: Int) -> Listen { .address(.tcp(host: host, port: port)) }
    static func unix(path: String) -> Listen { .address(.unix(path: path)) }
}
