import Foundation
import Synchronization
import Testing
import Vocabulary

@testable import Cluster

/// A directory of its own for one test, reachable for the user who runs the server, and gone afterwards.
final class TestPlace: Sendable {
    let root: String
    let observed = Observed()

    init() throws {
        var template = Array("/tmp/posthouse-cluster-XXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        root = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // As root the server runs as another user, who must pass through here.
        chmod(root, 0o755)
        try FileManager.default.createDirectory(atPath: sockets, withIntermediateDirectories: false)
    }

    /// What `[embedded] directory` would be.
    var directory: String { root + "/state" }
    var data: String { directory + "/cluster" }
    var sockets: String { root + "/run" }

    var hostEnvironment: HostEnvironment {
        HostEnvironment(
            runtimeDirectory: sockets, sessionDirectory: nil, path: "/usr/bin:/bin", temporaryDirectory: root)
    }

    /// Starts where no cluster runs. The lock of one that was stopped or dropped may last a moment longer: whoever
    /// looked after it may hold it still, and a process that another test is starting has a copy of every descriptor
    /// until it runs its program.
    func start(
        _ hostEnvironment: HostEnvironment? = nil, directory: String? = nil, pool: Int = 0
    ) async throws(ClusterError) -> PrivateCluster {
        for _ in 0..<6_000 {
            do throws(ClusterError) {
                return try await startOnce(hostEnvironment, directory: directory, pool: pool)
            } catch {
                guard case .inUse = error else { throw error }
            }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return try await startOnce(hostEnvironment, directory: directory, pool: pool)
    }

    func startOnce(
        _ hostEnvironment: HostEnvironment? = nil, directory: String? = nil, pool: Int = 0
    ) async throws(ClusterError) -> PrivateCluster {
        let observed = observed
        return try await PrivateCluster.start(
            directory: directory ?? self.directory, pool: pool, observe: { observed.take($0) },
            hostEnvironment: hostEnvironment ?? self.hostEnvironment)
    }

    /// The error of a start that must fail.
    func refusal(_ hostEnvironment: HostEnvironment? = nil, directory: String? = nil) async throws -> ClusterError {
        try #require(
            await #expect(throws: ClusterError.self) {
                let cluster = try await self.start(hostEnvironment, directory: directory)
                await cluster.stop()
            })
    }

    /// Stops whatever server still runs on the directory, by its own postmaster.pid, and removes everything.
    func cleanUp() async {
        if let process = Predecessor.postmaster(on: data) { await Predecessor.stop(process) }
        try? FileManager.default.removeItem(atPath: root)
    }

    /// Runs `body` and cleans up after it, however it ends.
    static func with(_ body: (TestPlace) async throws -> Void) async throws {
        let place = try TestPlace()
        do {
            try await body(place)
        } catch {
            await place.cleanUp()
            throw error
        }
        await place.cleanUp()
    }
}

/// Keeps what was observed, and lets a test wait for it.
final class Observed: Sendable {
    private let kept = Mutex<[String]>([])
    private let stream: AsyncStream<Observation>
    private let continuation: AsyncStream<Observation>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream(of: Observation.self) }

    func take(_ observation: Observation) {
        kept.withLock { $0.append("\(observation)") }
        continuation.yield(observation)
    }

    var all: [String] { kept.withLock { $0 } }
    /// Without those that say how long a start or a stop takes, which depends on the machine.
    var warnings: [String] {
        all.filter { text in
            text.hasPrefix("warning") && !text.contains(" has been starting for ")
                && !text.contains(" has been stopping for ")
        }
    }

    /// Whether the server of the latest start had been running already; nil: nothing was started.
    var wasTakenOver: Bool? { all.last { $0.hasPrefix("clusterStarted") }?.hasSuffix("takenOver: true)") }

    /// Waits until a server has died and another one serves.
    func restarted() async {
        _ = await next { if case .warning(let text) = $0 { text.contains("starting it again") } else { false } }
        _ = await next { if case .clusterStarted = $0 { true } else { false } }
    }

    /// Waits until one of this kind was observed that no earlier call has returned.
    func next(where matches: @Sendable (Observation) -> Bool) async -> Observation? {
        await stream.first(where: matches)
    }
}

/// Runs a program and returns its exit code and all it printed.
@discardableResult
func shell(_ program: String, _ arguments: [String], environment: [String: String]? = nil) throws -> (
    code: Int32, output: String
) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    if let environment { process.environment = environment }
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
    let data = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: data, as: UTF8.self))
}

/// PostgreSQL's own client is the oracle of whether the cluster serves.
func query(_ cluster: PrivateCluster, _ sql: String) throws -> String {
    let (code, output) = try shell("/usr/bin/psql", [cluster.connectionString, "-XAtq", "-c", sql])
    try #require(code == 0, "psql: \(output)")
    return output.trimmingCharacters(in: .whitespacesAndNewlines)
}

func pid(of cluster: PrivateCluster) async -> pid_t { await cluster.server.process.pid }

/// What pg_controldata says of the cluster.
func state(of data: String) throws -> String {
    let programs = try shell("/usr/bin/pg_config", ["--bindir"]).output.trimmingCharacters(in: .newlines)
    let lines = try shell(programs + "/pg_controldata", ["-D", data]).output.split(separator: "\n")
    let line = try #require(lines.first { $0.hasPrefix("Database cluster state:") })
    return line.drop { $0 != ":" }.dropFirst().trimmingCharacters(in: .whitespaces)
}
