import Glibc
import Linux
import NIOCore
import NIOPosix
import NIOSSL
import Vocabulary

/// Opens one connection for one request: resolve, guard, connect to the first address that answers.
///
/// It ends once, with a connection or a failure; what comes later (a slow look-up, a connection) is discarded. The
/// deadline is the exchange's: whoever watches it calls `abandon`.
final class Dial {
    private let client: EndpointClient
    private let exchange: Exchange
    private var candidates: ArraySlice<SocketAddress> = []
    private var connecting: EndpointConnection?
    private var isOver = false

    init(client: EndpointClient, exchange: Exchange) {
        self.client = client
        self.exchange = exchange
    }

    func start() {
        guard !isOver else { return }
        exchange.stage = .resolving
        if let literal = client.literal {
            resolved(.success([literal]))
        } else {
            client.lookUp(for: self)
        }
    }

    /// Gives up without notifying the client.
    func abandon() {
        isOver = true
        connecting?.close()
        connecting = nil
    }

    func resolved(_ result: Result<[SocketAddress], RequestFailure>) {
        guard !isOver else { return }
        switch result {
        case .failure(let failure): end(failure)
        case .success(let addresses):
            let admission = Self.admit(
                addresses, host: client.endpoint.host, allowsPrivate: client.allowsPrivateAddresses,
                table: client.table)
            switch admission {
            case .failure(let failure): end(failure)
            case .success(let admitted):
                candidates = admitted[...]
                exchange.stage = .connecting
                connectNext(after: nil)
            }
        }
    }

    /// The addresses that the egress guard lets through, each once.
    static func admit(
        _ addresses: [SocketAddress], host: String, allowsPrivate: Bool, table: String = "[[integration]]"
    ) -> Result<[SocketAddress], RequestFailure> {
        var admitted = [SocketAddress]()
        var refused: String?
        var canBePermitted = false
        for address in addresses {
            if let what = EgressGuard.problem(with: address, allowsPrivateAddresses: allowsPrivate) {
                refused = refused ?? "\(described(address, host)) (\(what))"
                if case .private = EgressGuard.verdict(on: address) { canBePermitted = true }
            } else if !admitted.contains(address), admitted.count < HTTPClientLimits.candidatesMax {
                admitted.append(address)
            }
        }
        if !admitted.isEmpty { return .success(admitted) }
        guard let refused else { return .failure(.unresolvable("\(host) has no address")) }
        // No key permits an address where no server can be.
        let remedy = canBePermitted ? "; `allow_private = true` in its \(table) permits internal addresses" : ""
        return .failure(.refusedAddress(refused + remedy))
    }

    /// The address, and the name that led to it.
    private static func described(_ address: SocketAddress, _ host: String) -> String {
        let ip = address.ipAddress ?? "no IP address"
        return ip == host ? ip : "\(host) is \(ip)"
    }

    private func connectNext(after failure: RequestFailure?) {
        guard !isOver else { return }
        guard let address = candidates.popFirst() else {
            return end(failure ?? .connectFailed("\(client.endpoint.host) has no address"))
        }
        if let code = Descriptors.shortage(reserve: HTTPClientLimits.descriptorsReserved) {
            let remedy = code == ENFILE ? "raise the machine's fs.file-max" : "raise LimitNOFILE= of the unit"
            return end(.shortage(remedy))
        }
        let tls: NIOSSLClientHandler?
        do {
            tls = try client.makeTLSHandler()
        } catch {
            return end(.tlsFailed(EndpointTrust.explain(error) ?? "\(error)"))
        }
        let connection = EndpointConnection(client: client, tls: tls)
        connecting = connection
        let bound = NIOLoopBound(connection, eventLoop: client.eventLoop)
        ClientBootstrap(group: client.eventLoop)
            .connectTimeout(Self.timeout(exchange.deadline - client.eventLoop.now, others: candidates.count))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try bound.value.install(on: channel) }
            }
            .connect(to: address)
            .assumeIsolated()
            .whenComplete { [self] result in
                connected(connection, address, result.map { _ in })
            }
    }

    private func connected(
        _ connection: EndpointConnection, _ address: SocketAddress, _ result: Result<Void, any Error>
    ) {
        guard !isOver else { return connection.close() }
        switch result {
        case .success:
            isOver = true
            connecting = nil
            client.connected(connection, exchange)
        case .failure(let error):
            connection.close()
            connectNext(after: .connectFailed("\(Self.describe(address)): \(Self.explain(error))"))
        }
    }

    /// How long an address has to answer: its share of the time that is left, so that a silent address does not use it
    /// all up, and no longer than is useful while there are others. The last one has the rest.
    /// - Parameter others: addresses that are left after it.
    static func timeout(_ left: TimeAmount, others: Int) -> TimeAmount {
        if others == 0 { return left + .milliseconds(HTTPClientLimits.connectMarginMilliseconds) }
        let share = TimeAmount.nanoseconds(max(1, left.nanoseconds / Int64(others + 1)))
        return min(share, HTTPClientLimits.connectShareMax)
    }

    private func end(_ failure: RequestFailure) {
        isOver = true
        connecting = nil
        client.dialFailed(exchange, failure)
    }

    private static func describe(_ address: SocketAddress) -> String {
        let ip = address.ipAddress ?? "?"
        return "\(ip.contains(":") ? "[\(ip)]" : ip):\(address.port ?? 0)"
    }

    private static func explain(_ error: any Error) -> String {
        switch error {
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout(let after): "no answer in \(after.nanoseconds / 1_000_000) ms"
        default: "\(error)"
        }
    }
}
