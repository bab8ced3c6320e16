import NIOCore
import NIOHTTP1
import Testing

@testable import HTTPServer

/// The state machine of a connection, without a connection and without a clock. Oracle: its own opening comment and
/// the limits passed in.
@Suite struct ExchangeTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    private func exchange() -> Exchange {
        Exchange(now: start, waits: Waits(HTTPServerLimits()), limits: HTTPServerLimits())
    }

    private func head(_ exchange: inout Exchange, _ fields: [(String, String)] = [], at now: NIODeadline) throws
        -> Exchange.Action
    {
        let head = HTTPRequestHead(
            version: .http1_1, method: .POST, uri: "/x", headers: HTTPHeaders([("host", "test")] + fields))
        return exchange.headCame(
            IncomingHead(method: "POST", target: "/x"), try Framing(head),
            .accept(bodyBytesMax: 8, answerTimeout: .seconds(8), timeoutAnswer: .text(503, "late")), arrived: now,
            now: now)
    }

    @Test func aFreshConnectionHasTheHeadsTimeFromItsStart() {
        var exchange = exchange()
        #expect(exchange.deadline == start + .seconds(10))
        exchange.bytesCame(now: start + .seconds(9))
        #expect(exchange.deadline == start + .seconds(10))
        guard case .nothing = exchange.timeIsUp(now: start + .seconds(9)) else { Issue.record("early"); return }
        guard case .reject(let answer, _, _, _) = exchange.timeIsUp(now: start + .seconds(10)) else {
            Issue.record("\(exchange.phase)")
            return
        }
        #expect(answer.status == 408)
        #expect(exchange.isEnding)
    }

    @Test func theAnswersTimeCountsFromTheFirstByte() throws {
        var exchange = exchange()
        exchange.bytesCame(now: start)
        _ = try head(&exchange, [("content-length", "4")], at: start + .seconds(5))
        #expect(exchange.deadline == start + .seconds(8))
        _ = exchange.bodyCame(ByteBuffer(string: "abcd"), now: start + .seconds(6))
        guard case .respond(let request, _) = exchange.messageEnded(now: start + .seconds(6)) else {
            Issue.record("\(exchange.phase)")
            return
        }
        #expect(request.startedAt == start)
        #expect(request.body == Array("abcd".utf8))
        #expect(exchange.deadline == start + .seconds(8))
    }

    @Test("Of an announced body no more is reserved than has come")
    func announcedBodyIsNotReserved() throws {
        var exchange = exchange()
        let head = HTTPRequestHead(
            version: .http1_1, method: .POST, uri: "/x",
            headers: HTTPHeaders([("host", "test"), ("content-length", "1048576")]))
        _ = exchange.headCame(
            IncomingHead(method: "POST", target: "/x"), try Framing(head),
            .accept(bodyBytesMax: 1 << 20, answerTimeout: .seconds(8), timeoutAnswer: .text(503, "late")),
            arrived: start, now: start)
        _ = exchange.bodyCame(ByteBuffer(string: "a"), now: start)
        guard case .body(let receiving) = exchange.phase else { Issue.record("\(exchange.phase)"); return }
        #expect(receiving.bytes.count == 1 && receiving.bytes.capacity < 1 << 10)
    }

    @Test func afterAnAnswerTheConnectionIsIdleAndALaterOneIsDropped() throws {
        var exchange = exchange()
        _ = try head(&exchange, at: start)
        guard case .respond(_, let sequence) = exchange.messageEnded(now: start) else { Issue.record(); return }
        let now = start + .seconds(1)
        guard case .send(_, let style) = exchange.answered(.text(200, ""), to: sequence, now: now) else {
            Issue.record("\(exchange.phase)")
            return
        }
        #expect(style == AnswerStyle())
        #expect(exchange.deadline == now + .seconds(75))
        guard case .nothing = exchange.answered(.text(200, ""), to: sequence, now: now) else { Issue.record(); return }
    }

    @Test func aChunkedBodyIsHeldToTheLimitAcrossItsParts() throws {
        var exchange = exchange()
        _ = try head(&exchange, [("transfer-encoding", "chunked")], at: start)
        guard case .nothing = exchange.bodyCame(ByteBuffer(string: "12345678"), now: start) else {
            Issue.record(); return
        }
        #expect(exchange.heldBytes == 8)
        guard case .reject(let answer, let style, _, _) = exchange.bodyCame(ByteBuffer(string: "9"), now: start)
        else {
            Issue.record("\(exchange.phase)")
            return
        }
        #expect(answer.status == 413)
        #expect(style.closes)
        #expect(exchange.heldBytes == 0)
    }

    @Test func lingersWithinBoundsAfterARefusal() throws {
        var exchange = exchange()
        _ = try head(&exchange, [("content-length", "9")], at: start)
        guard case .closeOutput = exchange.lastAnswerWritten(now: start) else {
            Issue.record("\(exchange.phase)"); return
        }
        #expect(exchange.deadline == start + .seconds(2))
        guard case .nothing = exchange.dropped(bytes: 1 << 20) else { Issue.record(); return }
        guard case .close = exchange.dropped(bytes: 1) else { Issue.record(); return }
    }

    @Test("The client's end closes behind what was answered before, within the time of a last answer")
    func theClientsEnd() throws {
        var exchange = exchange()
        _ = try head(&exchange, at: start)
        guard case .respond(_, let sequence) = exchange.messageEnded(now: start) else { Issue.record(); return }
        _ = exchange.answered(.text(200, ""), to: sequence, now: start)
        guard case .sendNoMore = exchange.inputEnded(now: start) else { Issue.record("\(exchange.phase)"); return }
        #expect(exchange.isEnding && exchange.deadline == start + .seconds(20))
        guard case .nothing = exchange.inputEnded(now: start) else { Issue.record(); return }
        var slow = exchange
        guard case .close = slow.timeIsUp(now: start + .seconds(20)) else { Issue.record(); return }
        guard case .close = exchange.lastAnswerWritten(now: start) else { Issue.record(); return }
        guard case .close = exchange.inputEnded(now: start) else { Issue.record(); return }
    }

    @Test func drainingLeavesAnIdleConnectionItsGraceAndEndsTheNextAnswer() throws {
        // One that has asked nothing yet has longer.
        var exchange = exchange()
        exchange.drain(now: start)
        #expect(exchange.deadline == start + .seconds(2))
        var used = self.exchange()
        _ = try head(&used, at: start)
        guard case .respond(_, let first) = used.messageEnded(now: start) else { Issue.record(); return }
        _ = used.answered(.text(200, ""), to: first, now: start)
        used.drain(now: start)
        #expect(used.deadline == start + .milliseconds(200))

        _ = try head(&exchange, at: start)
        guard case .respond(_, let sequence) = exchange.messageEnded(now: start),
            case .send(_, let style) = exchange.answered(.text(200, ""), to: sequence, now: start)
        else {
            Issue.record("\(exchange.phase)")
            return
        }
        #expect(style.closes)
        guard case .close = exchange.lastAnswerWritten(now: start) else { Issue.record(); return }
    }

    @Test(arguments: [
        ("/a?b=c", "/a?b=c"), ("http://test/a?b", "/a?b"), ("HTTPS://test", "/"), ("http://test?q", "/?q"),
    ])
    func targetsLoseSchemeAndAuthority(uri: String, target: String) throws {
        let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: uri, headers: ["host": "test"])
        #expect(try Framing(head).target == target)
    }

    @Test func anAnswerWithoutContentStatesNoLength() {
        var buffer = ByteBuffer()
        HTTPAnswer(status: 204).render(AnswerStyle(), into: &buffer)
        #expect(String(buffer: buffer) == "HTTP/1.1 204 No Content\r\n\r\n")
    }
}
