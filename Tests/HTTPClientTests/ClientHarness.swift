import NIOCore
import NIOPosix
import Testing
import Vocabulary

@testable import HTTPClient

/// One client on one event loop, called from a test.
struct ClientHarness: Sendable {
    typealias Outcome = Result<EndpointAnswer, RequestFailure>

    let loop: any EventLoop
    private let client: NIOLoopBound<EndpointClient>
    private let head: RequestHead

    /// Apart from the servers' loops: a receiver that floods must not take the client's time as well.
    private static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    static func make(
        port: Int, host: String = "127.0.0.1", isTLS: Bool = false, allowsPrivate: Bool = true,
        trust: EndpointTrust? = nil, resolver: AddressResolver = .loopback(), connectionsMax: Int = 4,
        method: RequestHead.Method = .post, target: String = "/hook?x=1", headers: [HeaderField] = [],
        // As long as no test means it: a machine that stands still does not cost a connection that is to be kept.
        idleTimeout: Duration = .seconds(600), connectionAge: Duration = .seconds(600), on loop: (any EventLoop)? = nil
    ) async throws -> ClientHarness {
        let loop = loop ?? group.next()
        let endpoint = EndpointURL(isTLS: isTLS, host: host, port: port, target: target)
        let head = try RequestHead(method, endpoint, userAgent: "posthouse/test", headers: headers)
        let trust = try trust ?? EndpointTrust.nobody()
        let client = try await loop.submit {
            NIOLoopBound(
                EndpointClient(
                    endpoint: endpoint, allowsPrivateAddresses: allowsPrivate, trust: trust, resolver: resolver,
                    connectionsMax: connectionsMax, eventLoop: loop, idleTimeout: idleTimeout,
                    connectionAge: connectionAge),
                eventLoop: loop)
        }.get()
        return ClientHarness(loop: loop, client: client, head: head)
    }

    /// Records an issue if the completion is called twice.
    func send(
        _ body: [[UInt8]] = [Array("{}".utf8)], to head: RequestHead? = nil,
        headers: [(String, String)] = [], timeout: Duration = .seconds(300), keptBytesMax: Int = 256
    ) async throws -> Outcome {
        try await start(body, to: head, headers: headers, timeout: timeout, keptBytesMax: keptBytesMax).get()
    }

    func start(
        _ body: [[UInt8]] = [Array("{}".utf8)], to other: RequestHead? = nil,
        headers: [(String, String)] = [], timeout: Duration = .seconds(300), keptBytesMax: Int = 256
    ) -> EventLoopFuture<Outcome> {
        let head = other ?? head
        let promise = loop.makePromise(of: Outcome.self)
        loop.execute {
            var calls = 0
            let request = EndpointRequest(
                head: head, headers: headers, body: body, timeout: timeout,
                answerBytesMax: Limits.responseBodyBytesMax, keptBytesMax: keptBytesMax)
            client.value.send(request) { outcome in
                calls += 1
                if calls > 1 { Issue.record("the completion was called twice") }
                promise.succeed(outcome)
            }
        }
        return promise.futureResult
    }

    /// The end of the server's certificate, by a handshake alone.
    func shakeHands(timeout: Duration = .seconds(300)) async throws -> Result<Timestamp, RequestFailure> {
        let promise = loop.makePromise(of: Result<Timestamp, RequestFailure>.self)
        loop.execute { client.value.shakeHands(timeout: timeout) { promise.succeed($0) } }
        return try await promise.futureResult.get()
    }

    func connectionCount() async throws -> Int { try await loop.submit { client.value.connectionCount }.get() }

    func lookUpsWaiting() async throws -> Int { try await loop.submit { client.value.lookUpsWaiting }.get() }

    func renew(_ trust: EndpointTrust) async throws { try await loop.submit { client.value.renew(trust) }.get() }

    func close() async throws { try await loop.flatSubmit { client.value.close() }.get() }

    func cancelAll() async throws { try await loop.submit { client.value.cancelAll() }.get() }
}

extension AddressResolver {
    /// Every name is 127.0.0.1, or what is given.
    static func loopback(_ addresses: [String] = ["127.0.0.1"], ports: [Int] = []) -> AddressResolver {
        AddressResolver { _, port, loop in
            loop.makeCompletedFuture {
                try addresses.enumerated().map { index, address in
                    try SocketAddress(ipAddress: address, port: ports.indices.contains(index) ? ports[index] : port)
                }
            }
        }
    }

    static func failing(_ reason: String) -> AddressResolver {
        AddressResolver { _, _, loop in loop.makeFailedFuture(ResolutionError(reason: reason)) }
    }

    /// Never answers, as long as a test lasts.
    static let hanging = AddressResolver { _, _, loop in
        let promise = loop.makePromise(of: [SocketAddress].self)
        loop.scheduleTask(in: .seconds(3_600)) { promise.fail(ResolutionError(reason: "too late")) }
        return promise.futureResult
    }
}

extension Result where Success == EndpointAnswer, Failure == RequestFailure {
    var status: Int? { (try? get())?.status }

    var failure: RequestFailure? {
        if case .failure(let failure) = self { failure } else { nil }
    }
}
