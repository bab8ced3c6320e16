package import NIOCore
import NIOSSL
package import Vocabulary

/// The HTTP/1.1 client of one origin (scheme, host, port) on one event loop. Everything happens on that loop: no locks,
/// no tasks.
///
/// `send` is the one entry. Requests travel over kept-alive connections, and each brings one answer or one failure. One
/// deadline covers waiting, look-up, connect, TLS, request, head and body. Redirects are answers like any other, and
/// content codings are not decoded. If the server closes a kept-alive connection before any byte of an answer, the
/// request is sent once more on a fresh connection, within the deadline, because this race is common. So even a POST
/// may arrive twice.
///
/// Limits: `connectionsMax` connections, `HTTPClientLimits.requestsWaitingMax` requests that wait for one,
/// `Limits.responseHeadBytesMax` bytes of a head, and per request what `EndpointRequest` says.
///
/// A `Dial` ends by calling `connected` or `dialFailed`, a connection by calling `answered`, `lost` or `left`.
package final class EndpointClient {
    package let eventLoop: any EventLoop
    let endpoint: EndpointURL
    /// The host if it is an address; nil if it is a name.
    let literal: SocketAddress?
    let allowsPrivateAddresses: Bool
    /// The table of the configuration that can allow them.
    let table: String
    let idleTimeout: TimeAmount
    let connectionAge: TimeAmount
    private var trust: EndpointTrust
    private let resolver: AddressResolver
    private let allocator = ByteBufferAllocator()
    private var pool: ConnectionPool<EndpointConnection, Exchange>
    private var connections: [ObjectIdentifier: EndpointConnection] = [:]
    private var dials: [ObjectIdentifier: Exchange] = [:]
    /// Dials that wait for the one look-up under way; nil: there is none.
    private var lookUps: [Dial]?
    /// Made by the first `close`.
    private var drained: EventLoopPromise<Void>?

    /// Use it on `eventLoop` only.
    /// - Parameters:
    ///   - endpoint: its origin counts, and not its path.
    ///   - allowsPrivateAddresses: whether the egress guard lets it connect to addresses inside.
    ///   - trust: the authorities of TLS; `nobody` is enough for an endpoint without TLS.
    ///   - connectionsMax: connections that are opening, busy or idle.
    ///   - idleTimeout: after this an idle connection is closed.
    ///   - connectionAge: a connection that is older when it is answered carries no further request.
    ///   - table: of the configuration, for a person: it can allow addresses inside.
    package init(
        endpoint: EndpointURL, allowsPrivateAddresses: Bool, trust: EndpointTrust, resolver: AddressResolver,
        connectionsMax: Int, eventLoop: any EventLoop, idleTimeout: Duration = Limits.receiverIdleTimeout,
        connectionAge: Duration = Limits.receiverConnectionAge, table: String = "[[integration]]"
    ) {
        AnswerDecoder.prepare()
        self.endpoint = endpoint
        literal = try? SocketAddress(ipAddress: endpoint.host, port: endpoint.port)
        self.allowsPrivateAddresses = allowsPrivateAddresses
        self.table = table
        self.trust = trust
        self.resolver = resolver
        self.eventLoop = eventLoop
        self.idleTimeout = TimeAmount(idleTimeout)
        self.connectionAge = TimeAmount(connectionAge)
        pool = ConnectionPool(connectionsMax: connectionsMax, waitingMax: HTTPClientLimits.requestsWaitingMax)
    }

    /// Connections that are opening, busy or idle. Read by tests.
    package var connectionCount: Int { pool.open }

    /// Dials that wait for a look-up. Read by tests.
    var lookUpsWaiting: Int { lookUps?.count ?? 0 }

    /// Sends one request to the client's origin. `completion` is called on the loop, exactly once, and never before
    /// `send` has returned.
    package func send(
        _ request: EndpointRequest, completion: @escaping (Result<EndpointAnswer, RequestFailure>) -> Void
    ) {
        eventLoop.preconditionInEventLoop()
        let bytes = request.body.reduce(0) { $0 + $1.count }
        let coalesces = bytes <= HTTPClientLimits.coalescedBodyBytesMax
        var head: ByteBuffer
        do throws(UnsendableRequest) {
            guard request.head.endpoint.hasOrigin(of: endpoint) else {
                throw UnsendableRequest(reason: "it is for another host than its connections")
            }
            head = try request.head.render(
                headers: request.headers, bodyBytes: bytes, reserve: coalesces ? bytes : 0, allocator: allocator)
        } catch {
            let failure = RequestFailure.unsendable(error.reason)
            return eventLoop.assumeIsolated().execute { completion(.failure(failure)) }
        }
        if coalesces { for part in request.body { head.writeBytes(part) } }
        place(
            Exchange(
                request, head: head, body: coalesces ? [] : request.body.map { ByteBuffer(bytes: $0) },
                deadline: eventLoop.now + TimeAmount(request.timeout), completion: completion))
    }

    /// Connects to the client's origin as a request would, ends the TLS handshake and closes the connection; no byte of
    /// a request is sent. Only for an endpoint with TLS.
    /// - Parameter completion: gets the time at which the server's own certificate ends, or the failure that a request
    ///   would have met. Called on the loop, exactly once, and never before this has returned.
    package func shakeHands(timeout: Duration, completion: @escaping (Result<Timestamp, RequestFailure>) -> Void) {
        eventLoop.preconditionInEventLoop()
        precondition(endpoint.isTLS, "without TLS there is no handshake")
        let exchange = Exchange(handshakeBy: eventLoop.now + TimeAmount(timeout))
        exchange.report(certificateEndTo: completion)
        place(exchange)
    }

    /// Accepts no new request, closes idle connections and lets requests under way finish. The future succeeds when no
    /// connection is left.
    @discardableResult
    package func close() -> EventLoopFuture<Void> {
        eventLoop.preconditionInEventLoop()
        for connection in pool.close() {
            connection.close()
            forget(connection)
        }
        let promise = drained ?? eventLoop.makePromise(of: Void.self)
        drained = promise
        finishDraining()
        return promise.futureResult
    }

    /// Closes, and ends what is under way with `.cancelled`.
    package func cancelAll() {
        close()
        for exchange in pool.takeWaiting() { exchange.finish(.failure(.cancelled)) }
        for exchange in Array(dials.values) {
            exchange.dial?.abandon()
            dialFailed(exchange, .cancelled)
        }
        for connection in Array(connections.values) { connection.cancel() }
        finishDraining()
    }

    // MARK: Placing a request

    private func place(_ exchange: Exchange) {
        switch pool.demand(for: exchange) {
        case .use(let connection): connection.start(exchange)
        case .open:
            watch(exchange)
            dial(exchange)
        case .wait: watch(exchange)
        case .refuse:
            let failure =
                pool.isClosing
                ? RequestFailure.cancelled : .connectFailed("too many requests wait for a connection")
            eventLoop.assumeIsolated().execute { exchange.finish(.failure(failure)) }
        }
    }

    /// Watches the deadline until the exchange has a connection.
    private func watch(_ exchange: Exchange) {
        guard exchange.timer == nil else { return }
        exchange.timer = eventLoop.assumeIsolated().scheduleTask(deadline: exchange.deadline) { [self] in
            let failure = RequestFailure.timedOut(exchange.stage)
            if let dial = exchange.dial {
                dial.abandon()
                dialFailed(exchange, failure)
            } else {
                pool.forget(waiting: exchange)
                exchange.finish(.failure(failure))
            }
        }
    }

    /// Starts in the loop's next turn: dials that fail at once must not call one another.
    private func dial(_ exchange: Exchange) {
        exchange.begin(now: eventLoop.now)
        let dial = Dial(client: self, exchange: exchange)
        exchange.dial = dial
        dials[ObjectIdentifier(exchange)] = exchange
        eventLoop.assumeIsolated().execute { dial.start() }
    }

    /// Looks the name up for each new connection, but only one look-up at a time: those that hang must not pile up.
    func lookUp(for dial: Dial) {
        guard lookUps == nil else {
            lookUps?.append(dial)
            return
        }
        lookUps = [dial]
        resolver.resolve(endpoint.host, endpoint.port, eventLoop).assumeIsolated().whenComplete { [self] result in
            let waiting = lookUps ?? []
            lookUps = nil
            let host = endpoint.host
            let answer = result.mapError { error in
                RequestFailure.unresolvable("\(host): \((error as? ResolutionError)?.reason ?? "\(error)")")
            }
            for dial in waiting { dial.resolved(answer) }
        }
    }

    /// Makes new connections trust these authorities; open ones continue.
    package func renew(_ trust: EndpointTrust) { self.trust = trust }

    func makeTLSHandler() throws -> NIOSSLClientHandler? {
        guard endpoint.isTLS else { return nil }
        // Without a name NIOSSL checks the peer's address against the certificate's IP addresses, as a literal address
        // needs.
        return try NIOSSLClientHandler(context: trust.context, serverHostname: literal == nil ? endpoint.host : nil)
    }

    // MARK: What a dial or a connection reports

    func connected(_ connection: EndpointConnection, _ exchange: Exchange) {
        dials[ObjectIdentifier(exchange)] = nil
        connections[ObjectIdentifier(connection)] = connection
        connection.start(exchange)
    }

    func dialFailed(_ exchange: Exchange, _ failure: RequestFailure) {
        dials[ObjectIdentifier(exchange)] = nil
        // It would keep the request's body for as long as the look-up hangs.
        lookUps?.removeAll { $0 === exchange.dial }
        freeSlot()
        exchange.finish(.failure(failure))
        finishDraining()
    }

    func answered(_ connection: EndpointConnection, _ exchange: Exchange, _ answer: EndpointAnswer, reusable: Bool) {
        switch pool.release(connection, reusable: reusable) {
        case .keep: connection.becomeIdle()
        case .serve(let next): connection.start(next)
        case .close:
            connection.close()
            forget(connection)
        }
        exchange.finish(.success(answer))
        finishDraining()
    }

    func lost(_ connection: EndpointConnection, _ exchange: Exchange, _ failure: RequestFailure, mayRepeat: Bool) {
        if mayRepeat, !exchange.isRepeated {
            exchange.isRepeated = true
            connections[ObjectIdentifier(connection)] = nil
            // The fresh connection takes the place of the dead one in the pool.
            watch(exchange)
            return dial(exchange)
        }
        forget(connection)
        exchange.finish(.failure(failure))
        finishDraining()
    }

    func left(_ connection: EndpointConnection) {
        pool.forget(idle: connection)
        forget(connection)
        finishDraining()
    }

    private func forget(_ connection: EndpointConnection) {
        guard connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        freeSlot()
    }

    private func freeSlot() {
        if let next = pool.slotFreed() { dial(next) }
    }

    private func finishDraining() {
        if pool.isDrained { drained?.succeed() }
    }
}
