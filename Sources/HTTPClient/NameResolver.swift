import Linux
package import NIOCore
import Synchronization
import Vocabulary

/// Looks host names up with getaddrinfo(3), which can hang without limit.
///
/// Each look-up has a thread of its own, and each name has at most one look-up: names that hang do not delay others.
/// While a look-up hangs, or the name server has no answer, the addresses of the last one are used again; the client
/// still checks each address with the egress guard.
package final class NameResolver: Sendable {
    /// Blocks.
    package typealias LookUp = @Sendable (_ host: String) -> Result<[SocketAddress], ResolutionError>

    private struct Running {
        let startedAt: NIODeadline
        var waiters: [UInt64: Waiter] = [:]
    }

    private struct Waiter {
        let port: Int
        let promise: EventLoopPromise<[SocketAddress]>
    }

    private struct Known {
        let addresses: [SocketAddress]
        let at: NIODeadline
    }

    private struct State {
        var isClosed = false
        var running: [String: Running] = [:]
        var known: [String: Known] = [:]
        var nextWaiter: UInt64 = 0
    }

    private let lookUp: LookUp
    private let timeout: TimeAmount
    private let memory: TimeAmount
    private let state = Mutex(State())

    /// - Parameters:
    ///   - timeout: how long a look-up may take before known addresses are used in its place.
    ///   - memory: how old known addresses may be.
    package init(
        timeout: Duration = HTTPClientLimits.lookUpTimeout, memory: Duration = HTTPClientLimits.addressMemory,
        lookUp: @escaping LookUp = AddressResolver.system
    ) {
        self.timeout = TimeAmount(timeout)
        self.memory = TimeAmount(memory)
        self.lookUp = lookUp
    }

    /// For clients. Failures of its futures are `ResolutionError`.
    package var resolver: AddressResolver {
        AddressResolver { [self] host, port, eventLoop in resolve(host, port, eventLoop) }
    }

    /// Fails those who wait and all who come later. Threads that hang remain until the process ends.
    package func close() {
        let waiting = state.withLock { state in
            state.isClosed = true
            defer { state.running.removeAll() }
            return state.running.values.flatMap { $0.waiters.values }
        }
        for waiter in waiting { waiter.promise.fail(Self.closed) }
    }

    private static let closed = ResolutionError(reason: "the daemon is stopping")

    private func resolve(
        _ host: String, _ port: Int, _ eventLoop: any EventLoop
    ) -> EventLoopFuture<[SocketAddress]> {
        let promise = eventLoop.makePromise(of: [SocketAddress].self)
        let now = NIODeadline.now()
        enum Next { case refuse, wait(UInt64, until: NIODeadline?, starts: Bool) }
        let next = state.withLock { state -> Next in
            guard !state.isClosed else { return .refuse }
            let starts = state.running[host] == nil
            let startedAt = state.running[host]?.startedAt ?? now
            state.nextWaiter += 1
            state.running[host, default: Running(startedAt: now)].waiters[state.nextWaiter] = Waiter(
                port: port, promise: promise)
            let isKnown = state.known[host].map { now - $0.at < memory } ?? false
            return .wait(state.nextWaiter, until: isKnown ? startedAt + timeout : nil, starts: starts)
        }
        switch next {
        case .refuse: promise.fail(Self.closed)
        case .wait(let waiter, let timeoutAt, let starts):
            if starts { begin(host) }
            if let timeoutAt {
                eventLoop.scheduleTask(deadline: timeoutAt) { [self] in useMemory(host, waiter) }
            }
        }
        return promise.futureResult
    }

    private func begin(_ host: String) {
        do throws(DetachedThread.Failure) {
            try DetachedThread.start { [self] in ended(host, lookUp(host)) }
        } catch {
            ended(host, .failure(ResolutionError(reason: "\(error)", isTemporary: true)))
        }
    }

    /// Answers a waiter with the known addresses, because the look-up takes too long.
    private func useMemory(_ host: String, _ waiter: UInt64) {
        let found = state.withLock { state -> (Waiter, [SocketAddress])? in
            guard let known = state.known[host], let waiting = state.running[host]?.waiters.removeValue(forKey: waiter)
            else { return nil }
            return (waiting, known.addresses)
        }
        if let (waiting, addresses) = found { Self.answer(waiting, .success(addresses)) }
    }

    private func ended(_ host: String, _ result: Result<[SocketAddress], ResolutionError>) {
        let now = NIODeadline.now()
        let (waiting, answer) = state.withLock { state -> ([Waiter], Result<[SocketAddress], ResolutionError>) in
            let waiting = state.running.removeValue(forKey: host)?.waiters.values.map { $0 } ?? []
            state.known = state.known.filter { now - $0.value.at < memory }
            switch result {
            case .success(let addresses):
                state.known[host] = Known(addresses: addresses, at: now)
            case .failure(let error) where error.isTemporary:
                if let known = state.known[host] { return (waiting, .success(known.addresses)) }
            case .failure: state.known[host] = nil
            }
            return (waiting, result)
        }
        for waiter in waiting { Self.answer(waiter, answer) }
    }

    private static func answer(_ waiter: Waiter, _ result: Result<[SocketAddress], ResolutionError>) {
        switch result {
        case .failure(let error): waiter.promise.fail(error)
        case .success(let addresses):
            waiter.promise.succeed(
                addresses.map { address in
                    var address = address
                    address.port = waiter.port
                    return address
                })
        }
    }
}
