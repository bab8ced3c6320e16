import NIOCore
import NIOEmbedded
import Vocabulary

@testable import HTTPClient
@testable import Outbound

/// A receiver's answer, read by the client's own pipeline. The first byte says how the rest is cut into reads: however
/// TCP cuts it, the same answer comes out, once, and what follows from it keeps to its bounds.
enum AnswerTarget {
    private typealias Outcome = Result<EndpointAnswer, RequestFailure>

    private static let endpoint = EndpointURL(isTLS: false, host: "192.0.2.1", port: 80, target: "/")
    private static let trust = try? EndpointTrust.nobody()
    private static let head = try? RequestHead(.post, endpoint, userAgent: "fuzz")
    private static let now = Timestamp(milliseconds: 1_700_000_000_000)

    static func run(_ input: [UInt8]) {
        guard let first = input.first else { return }
        let bytes = Array(input.dropFirst())
        let whole = answer(bytes, cutEvery: max(1, bytes.count))
        require(
            kind(whole) == kind(answer(bytes, cutEvery: Int(first) % 61 + 1)),
            "the way an answer is cut decides what it says: \(whole)")
        switch whole {
        case .success(let answer):
            require((200...599).contains(answer.status), "a status that answers nothing: \(answer.status)")
            require(answer.body.count <= Limits.responseExcerptBytesMax, "a body without bound")
            require(answer.retryAfter == nil || answer.status >= 400, "Retry-After of an answer that is no failure")
        case .failure(let failure): requirePlain(failure.explanation, "why an attempt failed")
        }
        decide(whole)
    }

    /// The parser words its errors by what it had when it saw them: of those only the kind is compared.
    private static func kind(_ outcome: Outcome) -> Outcome {
        if case .failure(.malformedAnswer) = outcome { return .failure(.malformedAnswer("")) }
        return outcome
    }

    private static func answer(_ bytes: [UInt8], cutEvery step: Int) -> Outcome {
        guard let trust, let head else { breach("the client cannot be built") }
        let loop = EmbeddedEventLoop()
        let client = EndpointClient(
            endpoint: endpoint, allowsPrivateAddresses: true, trust: trust,
            resolver: AddressResolver { _, _, loop in loop.makeFailedFuture(ResolutionError(reason: "none")) },
            connectionsMax: 1, eventLoop: loop)
        var outcomes: [Outcome] = []
        let request = EndpointRequest(
            head: head, timeout: .seconds(15), answerBytesMax: Limits.responseBodyBytesMax,
            keptBytesMax: Limits.responseExcerptBytesMax)
        client.send(request) { outcomes.append($0) }
        let connection = EndpointConnection(client: client, tls: nil)
        let channel = EmbeddedChannel(loop: loop)
        do {
            try connection.install(on: channel)
            try channel.connect(to: SocketAddress(ipAddress: "192.0.2.1", port: 80)).wait()
        } catch {
            breach("the pipeline cannot be built: \(error)")
        }
        let exchange = dialled(client)
        exchange.dial?.abandon()
        client.connected(connection, exchange)
        for start in stride(from: 0, to: bytes.count, by: step) where channel.isActive {
            // Errors of the pipeline end at the last handler, which turns them into failures.
            _ = try? channel.writeInbound(ByteBuffer(bytes: bytes[start..<min(start + step, bytes.count)]))
        }
        _ = try? channel.finish(acceptAlreadyClosed: true)
        require(outcomes.count == 1, "\(outcomes.count) outcomes of one request")
        require(client.connectionCount == 0, "a closed connection is still counted")
        return outcomes[0]
    }

    /// The request that waits for its dial, which never runs here: there is no socket. It is the client's own affair,
    /// so it is taken out by reflection.
    private static func dialled(_ client: EndpointClient) -> Exchange {
        let dials = Mirror(reflecting: client).descendant("dials") as? [ObjectIdentifier: Exchange]
        guard let exchange = dials?.values.first else { breach("a request without a dial") }
        return exchange
    }

    private static func decide(_ outcome: Outcome) {
        let schedule = RetrySchedule(gaps: RetrySchedule.defaultGaps, jitter: 0.2, giveUpAfter: nil)
        for (isProbe, isOutdated, attempt) in [
            (false, false, 1), (true, false, 1), (false, true, 1), (false, false, 10),
        ] {
            let decision = DeliveryDecision.decide(
                outcome, isProbe: isProbe, isOutdated: isOutdated, attempt: attempt, schedule: schedule,
                permanentStatuses: [400], createdAt: now, now: now, random: 1)
            switch decision {
            case .retry(let at, let reason), .postpone(let at, let reason):
                let wait = Duration.milliseconds(at.milliseconds - now.milliseconds)
                require((.zero...Limits.retryAfterMax).contains(wait), "a wait of \(wait)")
                requirePlain(reason, "the reason for another attempt")
            case .accepted, .dead, .pauseIntegration: break
            }
        }
    }
}
