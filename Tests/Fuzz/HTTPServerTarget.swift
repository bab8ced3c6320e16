import NIOCore
import NIOEmbedded
import Synchronization

@testable import HTTPServer

/// A connection of the HTTP server without a socket. The first byte says how the rest is cut into reads, and it is cut
/// where requests may begin, too. However TCP cuts a stream, the same requests come out of it, and so they do where all
/// are left to the HTTP decoder. Where a request ends is what request smuggling plays with.
enum HTTPServerTarget {
    private static let bodyBytesMax = 2_048
    private static let limits = HTTPServerLimits()
    /// Of the fields that are compared.
    private static let names = ["Host", "Content-Length", "connection", "x"]

    private struct Heard: Equatable {
        let method: String
        let path: String
        let query: String?
        let fields: [[String]]
        let body: [UInt8]
    }

    private final class Listener: IncomingHandler {
        private let log = Mutex<(heard: [Heard], rejected: [Int])>(([], []))

        var heard: [Heard] { log.withLock { $0.heard } }
        var rejected: [Int] { log.withLock { $0.rejected } }

        func admit(_ head: IncomingHead) -> Admission {
            if head.path == "/refused" { return .refuse(.text(404, "nothing here\n")) }
            return .accept(bodyBytesMax: bodyBytesMax, answerTimeout: .seconds(8), timeoutAnswer: .text(503, "late\n"))
        }

        func respond(to request: IncomingRequest, with responder: Responder) {
            HTTPServerTarget.check(request)
            let head = request.head
            let heard = Heard(
                method: head.method, path: head.path, query: head.query, fields: HTTPServerTarget.names.map(head.all),
                body: request.body)
            log.withLock { $0.heard.append(heard) }
            responder.respond(HTTPAnswer(status: 200, body: Array("\(request.body.count)\n".utf8)))
        }

        func rejected(_ head: IncomingHead?, status: Int, reason: String) {
            requirePlain(reason, "the reason for turning a request away")
            log.withLock { $0.rejected.append(status) }
        }
    }

    /// What is served leaves no doubt about where it ends (RFC 9112, sections 3.2, 6.1 and 6.3).
    private static func check(_ request: IncomingRequest) {
        let head = request.head
        require(head.path.hasPrefix("/") || head.path == "*", "a path that begins with no slash")
        require(head.all("host").count <= 1, "several hosts")
        let lengths = head.all("content-length")
        require(lengths.count <= 1, "several lengths")
        if let length = lengths.first {
            require(head.all("transfer-encoding").isEmpty, "a length and a transfer encoding")
            require(Int(length) == request.body.count, "another length than stated")
        }
        require(request.body.count <= bodyBytesMax, "a body beyond what was accepted")
    }

    static func run(_ input: [UInt8]) {
        guard let first = input.first, input.count > 1 else { return }
        let bytes = Array(input.dropFirst())
        let (whole, answers) = listen([bytes[...]])
        let (decoded, decodedAnswers) = listen([bytes[...]], inPlace: false)
        require(whole.heard == decoded.heard, "the decoder reads another request")
        require(whole.rejected == decoded.rejected && answers == decodedAnswers, "the decoder leads to other answers")
        let (apart, apartAnswers) = listen(atRequests(bytes))
        require(whole.heard == apart.heard, "requests that come one by one are others")
        require(whole.rejected == apart.rejected && answers == apartAnswers, "requests one by one get other answers")
        let (cut, cutAnswers) = listen(every(Int(first) % 61 + 1, of: bytes))
        require(whole.heard == cut.heard, "the way a stream is cut decides which requests are in it")
        require(whole.rejected.count <= 1 && cut.rejected.count <= 1, "it goes on after a request it refused")
        require(whole.rejected.isEmpty == cut.rejected.isEmpty, "the way a stream is cut decides what is refused")
        require(answers == cutAnswers, "the way a stream is cut decides the answers")
    }

    private static func every(_ step: Int, of bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        stride(from: 0, to: bytes.count, by: step).map { bytes[$0..<min($0 + step, bytes.count)] }
    }

    /// Cut where a request may begin: one that is read in place is followed by another, or by what is the decoder's.
    private static func atRequests(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        let starts = bytes.indices.dropFirst().filter { bytes[$0...].starts(with: "POST ".utf8) }
        return zip([0] + starts, starts + [bytes.count]).map { bytes[$0..<$1] }
    }

    /// What was heard of these reads, and the answers' bytes.
    private static func listen(_ reads: [ArraySlice<UInt8>], inPlace: Bool = true) -> (Listener, [UInt8]) {
        let listener = Listener()
        let channel = EmbeddedChannel()
        let connection = IncomingConnection(
            handler: listener, connections: Connections(), limits: limits, waits: Waits(limits), now: .now())
        var handlers: [any ChannelHandler] = [RequestDecoder.make(limits), connection]
        if inPlace { handlers.insert(WholeRequestReader(connection, limits), at: 0) }
        do {
            try channel.pipeline.syncOperations.addHandlers(handlers)
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        } catch {
            breach("the pipeline cannot be built: \(error)")
        }
        for read in reads where channel.isActive {
            // Errors of the pipeline end at the last handler, which answers them.
            _ = try? channel.writeInbound(ByteBuffer(bytes: read))
        }
        var answers: [UInt8] = []
        while let buffer = try? channel.readOutbound(as: ByteBuffer.self) { answers += buffer.readableBytesView }
        require(answers.isEmpty || answers.starts(with: "HTTP/1.1 ".utf8), "an answer without a status line")
        _ = try? channel.finish(acceptAlreadyClosed: true)
        return (listener, answers)
    }
}
