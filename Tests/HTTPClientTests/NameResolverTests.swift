import Dispatch
import NIOCore
import NIOPosix
import Synchronization
import Testing
import Vocabulary

@testable import HTTPClient

/// Names whose look-ups hang, fail and succeed as a test says; they never reach a real resolver.
private final class Names: Sendable {
    enum Answer: Sendable {
        case address(String)
        case unknown, unavailable
        /// Until `release`.
        case hangs
    }

    private let answers: Mutex<[String: Answer]>
    private let asked = Mutex<[String]>([])
    private let gate = DispatchSemaphore(value: 0)

    init(_ answers: [String: Answer]) { self.answers = Mutex(answers) }

    var count: Int { asked.withLock { $0.count } }

    func set(_ name: String, _ answer: Answer) { answers.withLock { $0[name] = answer } }

    /// Lets `count` of the look-ups that hang fail.
    func release(_ count: Int) { for _ in 0..<count { gate.signal() } }

    func lookUp(_ name: String) -> Result<[SocketAddress], ResolutionError> {
        asked.withLock { $0.append(name) }
        switch answers.withLock({ $0[name] }) {
        case .address(let text):
            return Result { [try SocketAddress(ipAddress: text, port: 0)] }
                .mapError { ResolutionError(reason: "\($0)") }
        case .unavailable: return .failure(ResolutionError(reason: "no answer", isTemporary: true))
        case .unknown, nil: return .failure(ResolutionError(reason: "unknown"))
        case .hangs:
            gate.wait()
            return .failure(ResolutionError(reason: "no answer", isTemporary: true))
        }
    }
}

@Suite("Looking names up", .timeLimit(.minutes(30)))
struct NameResolverTests {
    private let loop = MultiThreadedEventLoopGroup.singleton.next()

    private func resolver(
        _ names: Names, timeout: Duration = .milliseconds(20), memory: Duration = .seconds(3_600)
    ) -> NameResolver {
        NameResolver(timeout: timeout, memory: memory, lookUp: { names.lookUp($0) })
    }

    private func texts(_ addresses: [SocketAddress]) -> [String] {
        addresses.map { "\($0.ipAddress ?? "?"):\($0.port ?? -1)" }
    }

    @Test("Twenty names that hang take nothing from another, and each is looked up once however often it is asked for")
    func hanging() async throws {
        let names = Names(["good": .address("192.0.2.1")])
        let resolver = resolver(names)
        var waiting: [EventLoopFuture<[SocketAddress]>] = []
        for number in 0..<20 {
            names.set("hole-\(number)", .hangs)
            for _ in 0..<3 { waiting.append(resolver.resolver.resolve("hole-\(number)", 443, loop)) }
        }
        #expect(try await texts(resolver.resolver.resolve("good", 443, loop).get()) == ["192.0.2.1:443"])
        names.release(20)
        for future in waiting {
            await #expect(throws: ResolutionError(reason: "no answer", isTemporary: true)) { try await future.get() }
        }
        #expect(names.count == 21)
    }

    @Test("While a look-up hangs the addresses of the last one are used, with the port that is asked for")
    func memory() async throws {
        let names = Names(["a": .address("192.0.2.1")])
        let resolver = resolver(names)
        #expect(try await texts(resolver.resolver.resolve("a", 443, loop).get()) == ["192.0.2.1:443"])
        names.set("a", .hangs)
        #expect(try await texts(resolver.resolver.resolve("a", 8443, loop).get()) == ["192.0.2.1:8443"])
        // Its thread may begin later than the timeout ends.
        while names.count < 2 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(try await texts(resolver.resolver.resolve("a", 1, loop).get()) == ["192.0.2.1:1"])
        #expect(names.count == 2)
        names.release(1)
    }

    @Test("A name server without an answer leaves what was known; one that says there is no such name does not")
    func failures() async throws {
        let names = Names(["a": .address("192.0.2.1")])
        // The answer is what counts here, however late a busy machine is with it.
        let resolver = resolver(names, timeout: .seconds(600))
        _ = try await resolver.resolver.resolve("a", 1, loop).get()
        names.set("a", .unavailable)
        #expect(try await texts(resolver.resolver.resolve("a", 1, loop).get()) == ["192.0.2.1:1"])
        names.set("a", .unknown)
        await #expect(throws: ResolutionError(reason: "unknown")) {
            try await resolver.resolver.resolve("a", 1, loop).get()
        }
        names.set("a", .unavailable)
        await #expect(throws: ResolutionError.self) { try await resolver.resolver.resolve("a", 1, loop).get() }
    }

    @Test("What is known is forgotten in time")
    func forgotten() async throws {
        let names = Names(["a": .address("192.0.2.1")])
        let resolver = resolver(names, memory: .zero)
        _ = try await resolver.resolver.resolve("a", 1, loop).get()
        names.set("a", .unavailable)
        await #expect(throws: ResolutionError.self) { try await resolver.resolver.resolve("a", 1, loop).get() }
    }

    @Test("Closing fails those who wait, and waits for no look-up")
    func closing() async throws {
        let names = Names(["a": .hangs])
        let resolver = resolver(names)
        let waiting = resolver.resolver.resolve("a", 1, loop)
        resolver.close()
        await #expect(throws: ResolutionError.self) { try await waiting.get() }
        await #expect(throws: ResolutionError.self) { try await resolver.resolver.resolve("b", 1, loop).get() }
        names.release(1)
    }
}
