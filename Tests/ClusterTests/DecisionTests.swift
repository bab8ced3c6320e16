import Glibc
import Linux
import Testing

@testable import Cluster

/// The decisions and readers of the cluster that need no server.
@Suite struct DecisionTests {
    @Test func theNewestFittingVersionIsTakenForANewCluster() {
        let found = [13, 15, 17, 16].map { Binaries(directory: "/\($0)", major: $0) }
        #expect(Binaries.choose(from: found, existing: nil)?.major == 17)
        #expect(Binaries.choose(from: found, existing: 15)?.major == 15)
        #expect(Binaries.choose(from: found, existing: 18) == nil)
        #expect(Binaries.choose(from: [Binaries(directory: "/13", major: 13)], existing: nil) == nil)
    }

    /// Oracle: what `postgres --version` prints on Debian, and for a beta.
    @Test func theVersionIsReadFromTheServersOwnLine() {
        #expect(Binaries.major(in: "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n") == 15)
        #expect(Binaries.major(in: "postgres (PostgreSQL) 19beta1\n") == 19)
        #expect(Binaries.major(in: "sh: not found\n") == nil)
    }

    /// Oracle: a postmaster.pid as PostgreSQL 15 wrote it; its lines are padded, and appear one after the other.
    @Test func postmasterFilesAreReadAtEachStage() throws {
        let whole = """
            4711
            /var/lib/posthouse/cluster
            1700000000
            5432
            /run/posthouse/0a

              5432001    262144
            ready\u{20}\u{20}\u{20}

            """
        let file = try #require(PostmasterFile(parsing: whole))
        #expect(file.pid == 4711)
        #expect(file.socketDirectory == "/run/posthouse/0a")
        #expect(file.status == "ready")
        #expect(PostmasterFile(parsing: "4711\n/var/lib/x\n")?.status == nil)
        #expect(PostmasterFile(parsing: "-4711\n/var/lib/x\n")?.pid == 4711)
        #expect(PostmasterFile(parsing: "") == nil)
        #expect(PostmasterFile(parsing: "garbage\n") == nil)
    }

    @Test("A server that starts is waited for as long as any of its processes works, and no longer")
    func startTimeout() {
        let begin = ContinuousClock.Instant.now
        let limit = ClusterLimits.idleStartTimeout
        // What the processes have worked at each multiple of the limit, and a second behind the last.
        func isOver(_ work: [[pid_t: UInt64]]) -> [Bool] {
            var timeout = StartTimeout(begin: begin)
            return work.indices.map { turn in
                let late = turn == work.count - 1 ? Duration.seconds(1) : .zero
                return timeout.isOver(at: begin + limit * (turn + 1) + late, work: work[turn])
            }
        }
        #expect(isOver([[1: 7, 2: 1], [1: 7, 2: 2], [1: 7, 2: 3]]) == [false, false, false])
        #expect(isOver([[1: 7, 2: 1], [1: 7, 2: 1]]) == [false, true])
        // Another process of it.
        #expect(isOver([[1: 7, 2: 1], [1: 7, 3: 1]]) == [false, false])
        #expect(isOver([[:]]) == [true])
    }

    /// Oracle: proc(5) for a line, kill(2) for signals.
    @Test("A process that takes signals and may not be looked into is never taken for none")
    func hiddenProcesses() {
        func look(_ line: String?, _ isOnData: Bool?, _ takesSignals: Bool) -> ServerProcesses.Look {
            ServerProcesses.look(
                status: line.flatMap { ProcessStat(parsing: $0) }, isOnData: isOnData, takesSignals: takesSignals)
        }
        // As in the unit, where another user namespace's process is not even listed.
        #expect(look(nil, false, true) == .hidden)
        // None, or another user's, which has got the pid after a reboot.
        #expect(look(nil, false, false) == .other)
        // As for the cluster's own user beside the unit: listed, without its working directory.
        #expect(look("42 (postgres) S 1", nil, true) == .hidden)
        #expect(look("42 (postgres) S 1", nil, false) == .other)
        #expect(look("42 (postgres) S 1", true, true) == .server)
        #expect(look("42 (postgres) S 1", false, true) == .other)
        // A zombie, and a pid that has gone to another program.
        #expect(look("42 (postgres) Z 1", nil, true) == .other)
        #expect(look("1 (posthouse) S 0", false, true) == .other)
    }

    @Test func theBackoffGrowsToItsBoundAndStartsAnewAfterALongRun() {
        var backoff = RestartBackoff()
        let gaps = (0..<12).map { _ in backoff.gap(uptime: nil) }
        #expect(gaps.first == ClusterLimits.restartBackoff.lowerBound)
        #expect(gaps.last == ClusterLimits.restartBackoff.upperBound)
        #expect(zip(gaps, gaps.dropFirst()).allSatisfy { $0 <= $1 })
        #expect(backoff.gap(uptime: .seconds(1)) == ClusterLimits.restartBackoff.upperBound)
        #expect(backoff.gap(uptime: ClusterLimits.restartBackoffReset) == ClusterLimits.restartBackoff.lowerBound)
    }

    /// Oracle: libpq's rules for keyword strings, PostgreSQL's for lists of names.
    @Test func pathsAreQuoted() {
        #expect(Settings.quotedConnectionValue("/tmp/it's \\ here") == "'/tmp/it\\'s \\\\ here'")
        #expect(Settings.quotedListItem("/tmp/a, \"b\"") == "\"/tmp/a, \"\"b\"\"\"")
    }

    @Test(
        "The sizes of the private server are shares of the machine, within bounds",
        arguments: [
            (MachineSize(memory: 0, disk: 0), "128MB", "512MB"),
            (MachineSize(memory: 1 << 30, disk: 40 << 30), "256MB", "1280MB"),
            (MachineSize(memory: 4 << 30, disk: 64 << 30), "1024MB", "2048MB"),
            (MachineSize(memory: .max, disk: .max), "2048MB", "4096MB"),
        ])
    func sizes(machine: MachineSize, buffers: String, wal: String) {
        let lines = Settings.defaults(for: machine, hasLZ4: true).split(separator: "\n")
        #expect(lines.contains("shared_buffers = \(buffers)") && lines.contains("max_wal_size = \(wal)"))
        #expect(lines.contains("wal_compression = lz4"))
        #expect(lines.allSatisfy { $0.hasPrefix("#") || $0.split(separator: " ", maxSplits: 2).count == 3 })
        #expect(Settings.defaults(for: machine, hasLZ4: false).contains("\nwal_compression = on\n"))
    }

    @Test(
        "The private server has room for the pool and what is beside it",
        arguments: [(0, 100), (80, 100), (81, 101), (256, 276)])
    func connections(pool: Int, max: Int) {
        let text = Settings.defaults(for: MachineSize(memory: 0, disk: 0), hasLZ4: true, pool: pool)
        #expect(text.contains("\nmax_connections = \(max)\n"))
    }

    @Test("The size of this machine is read, memory and disk")
    func thisMachine() throws {
        let machine = MachineSize.of(directory: "/tmp")
        #expect(machine.memory > 64 << 20 && machine.memory < 1 << 50)
        #expect(machine.disk > 64 << 20)
        #expect(MachineSize.of(directory: "/there/is/none").disk == 0)
    }

    /// Our defaults hold over what initdb chose by itself, and an administrator's later line holds over them.
    @Test func initdbsOwnChoicesDoNotHideOurDefaults() {
        let text = Settings.withInclude("max_connections = 100\t# (change)\n#jit = on\ndatestyle = 'iso'\n")
        #expect(text.contains("\n#max_connections = 100"))
        #expect(text.contains("\ndatestyle = 'iso'"))
        #expect(text.contains("include = 'posthouse.conf'"))
    }

    /// Oracle: the published vectors of FNV-1a, 64 bits (RFC 9923 and the authors' page).
    @Test func theSocketNameIsStable() {
        #expect(SocketDirectory.hash(of: "") == "cbf29ce484222325")
        #expect(SocketDirectory.hash(of: "a") == "af63dc4c8601ec8c")
        #expect(SocketDirectory.hash(of: "foobar") == "85944171f73967e8")
    }
}
