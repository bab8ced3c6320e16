import NIOCore
import NIOEmbedded
import Testing
import Vocabulary

@testable import HTTPClient

/// The pure parts of the client: who gets which connection, what an answer is, what a head may hold.
@Suite struct ClientDecisionTests {
    final class Item {}

    @Test func aPoolNeverOpensMoreThanItsLimit() throws {
        var pool = ConnectionPool<Item, Item>(connectionsMax: 2, waitingMax: 2)
        let (a, b, waiting) = (Item(), Item(), Item())
        for _ in 0..<2 {
            guard case .open = pool.demand(for: Item()) else {
                Issue.record("not opened")
                return
            }
        }
        guard case .wait = pool.demand(for: waiting), case .wait = pool.demand(for: Item()),
            case .refuse = pool.demand(for: Item())
        else {
            Issue.record("the limits do not hold")
            return
        }
        guard case .serve(let served) = pool.release(a, reusable: true), served === waiting else {
            Issue.record("who waited longest is not served")
            return
        }
        // A dead connection's place goes to who waits; the number of open ones stays.
        guard case .close = pool.release(b, reusable: false) else {
            Issue.record("kept")
            return
        }
        #expect(pool.slotFreed() != nil)
        #expect(pool.open == 2)
        #expect(pool.slotFreed() == nil)
        #expect(pool.open == 1)
    }

    @Test func thePoolUsesTheLastOneFirstAndDrains() throws {
        var pool = ConnectionPool<Item, Item>(connectionsMax: 4, waitingMax: 4)
        let connections = [Item(), Item(), Item()]
        for _ in connections { _ = pool.demand(for: Item()) }
        for connection in connections {
            guard case .keep = pool.release(connection, reusable: true) else {
                Issue.record("not kept")
                return
            }
        }
        pool.forget(idle: connections[2])
        #expect(pool.slotFreed() == nil)
        guard case .use(let used) = pool.demand(for: Item()), used === connections[1] else {
            Issue.record("not the last one used")
            return
        }
        #expect(pool.close().count == 1)
        #expect(pool.slotFreed() == nil)
        #expect(!pool.isDrained)
        guard case .close = pool.release(used, reusable: true), case .refuse = pool.demand(for: Item()) else {
            Issue.record("a closing pool goes on")
            return
        }
        #expect(pool.slotFreed() == nil)
        #expect(pool.isDrained)
    }

    @Test func anAnswerIsCutShortOneByteBehindTheLimit() throws {
        for (extra, keepsAlive) in [(0, true), (1, false)] {
            var reader = AnswerReader(bodyBytesMax: 65_536, keptBytesMax: 256)
            try reader.head(status: 200, keepsAlive: true, retryAfter: nil)
            let body = ByteBuffer(repeating: 9, count: 65_536 + extra)
            reader.body(body.readableBytesView)
            #expect(reader.isFinished == (extra == 1))
            if extra == 0 { reader.end() }
            #expect(reader.answer?.keepsAlive == keepsAlive)
            #expect(reader.answer?.answer.body.count == 256)
            #expect(reader.answer?.answer.isWhole == false)
        }
    }

    @Test func aHeadMayReplaceSomeHeadersAndNoOthers() throws {
        let url = EndpointURL(isTLS: true, host: "::1", port: 443, target: "/")
        let head = try RequestHead(
            .post, url, userAgent: "posthouse/1",
            headers: [.init(name: "User-Agent", value: Secret(Array("mine".utf8)))])
        let rendered = try head.render(headers: [], bodyBytes: 0, reserve: 0, allocator: ByteBufferAllocator())
        #expect(
            String(buffer: rendered)
                == "POST / HTTP/1.1\r\nhost: [::1]\r\naccept: */*\r\ncontent-type: application/json\r\n"
                + "User-Agent: mine\r\ncontent-length: 0\r\n\r\n")
        for name in ["Host", "content-length", "Transfer-Encoding", "Connection", "a b", "", "x:"] {
            #expect(throws: UnsendableRequest.self) {
                try RequestHead(.post, url, userAgent: "p", headers: [.init(name: name, value: Secret([]))])
            }
        }
        let secret = Array("hidden\r\nx: y".utf8)
        let error = #expect(throws: UnsendableRequest.self) {
            try RequestHead(.post, url, userAgent: "p", headers: [.init(name: "x-key", value: Secret(secret))])
        }
        #expect(error?.reason.contains("hidden") == false)
        for target in ["/a b", "/\r\n", "x", "", "/é"] {
            #expect(throws: UnsendableRequest.self) {
                try RequestHead(
                    .post, EndpointURL(isTLS: false, host: "h", port: 80, target: target), userAgent: "p")
            }
        }
    }

    @Test("A failure says nothing of the server where the request got no connection, or was given up here")
    func failuresOfServer() {
        let ofThisDaemon: [RequestFailure] = [.timedOut(.waiting), .shortage("raise LimitNOFILE="), .cancelled]
        #expect(ofThisDaemon.allSatisfy { !$0.isOfServer })
        let stages = RequestStage.allCases.filter { $0 != .waiting }.map { RequestFailure.timedOut($0) }
        let others: [RequestFailure] = [.connectFailed("refused"), .connectionLost(.head), .malformedAnswer("cut")]
        #expect((stages + others).allSatisfy { $0.isOfServer })
    }

    /// How a request of five seconds fails that waits for a connection first, where the server must have two.
    /// - Parameter isDialled: its connection has to be opened then, and is not; otherwise it is there, and silent.
    private func timeOut(after wait: Int64, isDialled: Bool) throws -> RequestFailure? {
        let loop = EmbeddedEventLoop()
        let channel = EmbeddedChannel(loop: loop)
        let addresses = loop.makePromise(of: [SocketAddress].self)
        defer {
            addresses.fail(ResolutionError(reason: "too late"))
            _ = try? channel.finish(acceptAlreadyClosed: true)
        }
        let endpoint = EndpointURL(isTLS: false, host: "h", port: 80, target: "/")
        let client = EndpointClient(
            endpoint: endpoint, allowsPrivateAddresses: true, trust: try EndpointTrust.nobody(),
            resolver: AddressResolver { _, _, _ in addresses.futureResult }, connectionsMax: 1, eventLoop: loop)
        let head = try RequestHead(.get, endpoint, userAgent: "p")
        let request = EndpointRequest(
            head: head, timeout: .seconds(5), fairTime: .seconds(2), answerBytesMax: 0, keptBytesMax: 0)
        var outcome: Result<EndpointAnswer, RequestFailure>?
        if isDialled {
            let first = EndpointRequest(head: head, timeout: .seconds(wait), answerBytesMax: 0, keptBytesMax: 0)
            client.send(first) { _ in }
            client.send(request) { outcome = $0 }
            loop.advanceTime(by: .seconds(5))
        } else {
            let connection = EndpointConnection(client: client, tls: nil)
            try connection.install(on: channel)
            try channel.connect(to: SocketAddress(ipAddress: "192.0.2.1", port: 80)).wait()
            let exchange = Exchange(request, head: ByteBuffer(), body: [], deadline: loop.now + .seconds(5)) {
                outcome = $0
            }
            loop.advanceTime(by: .seconds(wait))
            connection.start(exchange)
            loop.advanceTime(by: .seconds(5 - wait))
        }
        return outcome?.failure
    }

    @Test("A time-out says nothing of the server where the wait for a connection left too little of the request's time")
    func fairTime() throws {
        #expect(try timeOut(after: 3, isDialled: true) == .timedOut(.resolving))
        #expect(try timeOut(after: 4, isDialled: true) == .timedOut(.waiting))
        #expect(try timeOut(after: 3, isDialled: false) == .timedOut(.head))
        #expect(try timeOut(after: 4, isDialled: false) == .timedOut(.waiting))
    }

    @Test("The head of a GET names neither a content type nor the length of no body")
    func headOfAGet() throws {
        let head = try RequestHead(
            .get, EndpointURL(isTLS: false, host: "h", port: 80, target: "/a?b=1"), userAgent: "p",
            headers: [HeaderField(name: "authorization", value: Secret(Array("Bearer x".utf8)))])
        let allocator = ByteBufferAllocator()
        let empty = try head.render(headers: [("x", "1")], bodyBytes: 0, reserve: 0, allocator: allocator)
        #expect(
            String(buffer: empty).split(separator: "\r\n", omittingEmptySubsequences: false) == [
                "GET /a?b=1 HTTP/1.1", "host: h", "user-agent: p", "accept: */*", "authorization: Bearer x", "x: 1", "",
                "",
            ])
        let full = try head.render(headers: [], bodyBytes: 2, reserve: 2, allocator: allocator)
        #expect(String(buffer: full).hasSuffix("content-length: 2\r\n\r\n"))
    }

    @Test func everyFailureExplainsItselfInOneLine() {
        let stages = RequestStage.allCases.flatMap { [RequestFailure.timedOut($0), .connectionLost($0)] }
        let others: [RequestFailure] = [
            .refusedAddress("a"), .unresolvable("a"), .connectFailed("a"), .tlsFailed("a"), .malformedAnswer("a"),
            .unsendable("a"), .cancelled,
        ]
        let lines = (stages + others).map(\.explanation)
        #expect(Set(lines).count == lines.count)
        #expect(lines.allSatisfy { !$0.isEmpty && !$0.contains("\n") })
    }
}
