import Glibc
import Testing

@testable import Cluster

/// Beside `LifeTests`: its stop takes as long as a server is given to answer.
@Suite struct StuckServerTests {
    @Test("A server that does not answer is ended without a checkpoint, which would never come")
    func stuckServer() async throws {
        try await TestPlace.with { place in
            let cluster = try await place.start()
            // Its children too, as on a machine that is too busy to run them: they do not see it end.
            ServerProcesses.all(on: place.data).forEach { $0.signal(SIGSTOP) }
            await cluster.stop()
            let warnings = place.observed.all.filter { $0.hasPrefix("warning") }
            #expect(warnings.contains { $0.contains("did not answer before") })
            #expect(warnings.last?.contains("was ended without it") == true)
            #expect(ServerProcesses.all(on: place.data).isEmpty)
            #expect(try state(of: place.data) == "in production")
        }
    }
}
