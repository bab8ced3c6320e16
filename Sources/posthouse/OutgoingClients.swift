import Configuration
import HTTPClient
import Inbound
import NIOCore
import Vocabulary

/// Sends what sources ask of their stores' servers, by the client that delivers. One client for each source and origin,
/// all on one event loop: a store's quota allows some fifty requests a second.
final class OutgoingClients: Sendable {
    /// Connections of one source to one origin; further requests wait for one.
    private static let connectionsMax = 16
    /// Origins that are kept; a source has three at most, and a configuration names a handful of sources.
    private static let originsMax = 256

    /// An origin, as one source asks it.
    private struct Origin: Hashable {
        let source: String
        let isTLS: Bool
        let host: String
        let port: Int
        let allowsPrivateAddresses: Bool

        init(_ request: OutgoingRequest) {
            source = request.source
            isTLS = request.url.isTLS
            host = request.url.host
            port = request.url.port
            allowsPrivateAddresses = request.allowsPrivateAddresses
        }
    }

    /// Lives on the event loop.
    private final class Clients {
        var byOrigin: [Origin: EndpointClient] = [:]
        var isClosed = false
        /// The system's, once a client has needed them: to read them takes long.
        var authorities: EndpointTrust?
    }

    private let loop: any EventLoop
    private let resolver: AddressResolver
    private let clients: NIOLoopBoundBox<Clients?>

    init(on loop: any EventLoop, resolver: AddressResolver) {
        self.loop = loop
        self.resolver = resolver
        clients = NIOLoopBoundBox.makeEmptyBox(valueType: Clients.self, eventLoop: loop)
    }

    func send(_ request: OutgoingRequest) async -> Result<OutgoingAnswer, OutgoingFailure> {
        let promise = loop.makePromise(of: EndpointAnswer.self)
        loop.execute { [self] in
            do {
                let head = try RequestHead(
                    request.method == .get ? .get : .post, request.url, userAgent: "posthouse/\(Posthouse.version)",
                    headers: request.headers)
                let sent = EndpointRequest(
                    head: head, body: [request.body], timeout: request.timeout,
                    fairTime: request.fairTime, answerBytesMax: request.answerBytesMax,
                    keptBytesMax: request.answerBytesMax)
                try client(for: request).send(sent) { result in
                    promise.completeWith(
                        result.mapError { OutgoingFailure($0.explanation, isOfServer: $0.isOfServer) as any Error })
                }
            } catch let failure as OutgoingFailure {
                promise.fail(failure)
            } catch let error as UnsendableRequest {
                promise.fail(OutgoingFailure(error.reason, isOfServer: true))
            } catch let error as EndpointTrust.Unusable {
                promise.fail(OutgoingFailure(error.reason, isOfServer: true))
            } catch {
                promise.fail(OutgoingFailure("\(error)", isOfServer: true))
            }
        }
        do {
            let answer = try await promise.futureResult.get()
            return .success(
                OutgoingAnswer(
                    status: answer.status, body: answer.isWhole ? answer.body : nil, cacheControl: answer.cacheControl))
        } catch {
            return .failure(
                error as? OutgoingFailure ?? OutgoingFailure("cut off by this daemon", isOfServer: false))
        }
    }

    /// Reads the system's authorities anew.
    /// - Returns: nil: no client has any yet; the first one that needs them reads them itself.
    func readAuthorities() async throws(EndpointTrust.Unusable) -> EndpointTrust? {
        // Fails only if the loop is shut down, and then nothing is sent.
        let isNeeded = try? await loop.submit { [self] in
            clients.value?.byOrigin.keys.contains { $0.isTLS } ?? false
        }.get()
        if isNeeded != true { return nil }
        return try EndpointTrust.system()
    }

    /// Makes new connections trust these authorities; open ones continue.
    func renew(_ authorities: EndpointTrust) {
        loop.execute { [self] in
            clients.value?.authorities = authorities
            for (origin, client) in clients.value?.byOrigin ?? [:] where origin.isTLS { client.renew(authorities) }
        }
    }

    /// Ends what is under way.
    func close() {
        loop.execute { [self] in
            let held = clients.value ?? Clients()
            held.isClosed = true
            for client in held.byOrigin.values { client.cancelAll() }
            held.byOrigin = [:]
            clients.value = held
        }
    }

    private func client(for request: OutgoingRequest) throws -> EndpointClient {
        let held = clients.value ?? Clients()
        clients.value = held
        if held.isClosed { throw OutgoingFailure("the daemon is stopping", isOfServer: false) }
        let origin = Origin(request)
        if let client = held.byOrigin[origin] { return client }
        // Those of former configurations have nothing under way for long.
        if held.byOrigin.count >= Self.originsMax {
            for client in held.byOrigin.values { client.close() }
            held.byOrigin = [:]
        }
        let trust = try request.url.isTLS ? held.authorities ?? .system() : .nobody()
        if request.url.isTLS { held.authorities = trust }
        let client = EndpointClient(
            endpoint: request.url, allowsPrivateAddresses: request.allowsPrivateAddresses,
            trust: trust, resolver: resolver, connectionsMax: Self.connectionsMax, eventLoop: loop,
            table: "[[source]]")
        held.byOrigin[origin] = client
        return client
    }
}

extension StoreClients {
    /// Those of this process.
    convenience init(sendingBy clients: OutgoingClients, observe: @escaping Observer) {
        self.init(
            clock: .system(now: ThisProcess.now), send: { await clients.send($0) },
            readFile: { path, bytesMax in
                SecretReader.system.readFile(path, bytesMax).map(\.bytes)
                    .mapError { OutgoingFailure($0.text, isOfServer: true) }
            },
            readURL: Self.readURL, observe: observe)
    }

    /// Where access tokens are given out: without TLS only on this machine, for tests.
    @Sendable static func readURL(_ text: String) -> EndpointURL? {
        guard let url = try? EndpointText.read(text), url.isTLS || url.isLocal else { return nil }
        return url
    }

    /// What is wrong with the accounts of a configuration's sources.
    static func problems(in configuration: Configuration) -> [String] {
        problems(in: configuration.sources, readURL: readURL)
    }
}
