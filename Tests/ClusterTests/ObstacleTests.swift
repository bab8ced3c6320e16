import Foundation
import Testing
import Vocabulary

@testable import Cluster

/// What can prevent a start: each a clear error that names the place, or overcome.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ObstacleTests {
    private static var isRoot: Bool { geteuid() == 0 }

    @Test func aClusterOfAnotherVersionIsNamed() async throws {
        try await Workbench.with { bench in
            await (try bench.start()).stop()
            let file = bench.data + "/PG_VERSION"
            try "99\n".write(toFile: file, atomically: false, encoding: .utf8)
            let newer = try await bench.refusal()
            #expect("\(newer)".contains("apt install postgresql-99"))
            #expect("\(newer)".contains(bench.data))
            try "14\n".write(toFile: file, atomically: false, encoding: .utf8)
            let refused = try await bench.refusal()
            #expect(refused == .versionTooOld(directory: bench.data, version: 14))
        }
    }

    @Test func withoutBinariesTheErrorSaysWhatToInstall() async throws {
        try await Workbench.with { bench in
            var bare = bench.hostEnvironment
            bare.versionsDirectory = bench.root + "/none"
            bare.path = bench.root
            let error = try await bench.refusal(bare)
            #expect("\(error)".contains("apt install postgresql"))
            #expect(!FileManager.default.fileExists(atPath: bench.data))
        }
    }

    @Test func binariesOnThePathServeToo() async throws {
        try await Workbench.with { bench in
            let found = try await Binaries.find(for: nil, clusterDirectory: bench.data, in: bench.hostEnvironment)
            var bare = bench.hostEnvironment
            bare.versionsDirectory = bench.root + "/none"
            bare.path = bench.root + ":" + found.directory
            let onPath = try await Binaries.find(for: nil, clusterDirectory: bench.data, in: bare)
            #expect(onPath == found)
        }
    }

    @Test(.enabled(if: isRoot)) func anUnsearchableParentIsNamed() async throws {
        try await Workbench.with { bench in
            let closed = bench.root + "/closed"
            try FileManager.default.createDirectory(atPath: closed, withIntermediateDirectories: false)
            chmod(closed, 0o700)
            let error = try await bench.refusal(directory: closed + "/deeper/state")
            guard case .unsearchable(let directory, _) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(directory == closed)
        }
    }

    /// What `mktemp -d` makes as root: empty and closed, so it is handed over; with other things in it, it is not.
    @Test(.enabled(if: isRoot)) func aClosedDirectoryOfRootIsHandedOverOnlyWhenItHoldsNothingElse() async throws {
        try await Workbench.with { bench in
            try FileManager.default.createDirectory(atPath: bench.directory, withIntermediateDirectories: false)
            chmod(bench.directory, 0o700)
            try Data().write(to: URL(fileURLWithPath: bench.directory + "/keys"))
            let error = try await bench.refusal()
            #expect("\(error)".contains("may not pass through \(bench.directory)"))
            try FileManager.default.removeItem(atPath: bench.directory + "/keys")
            let cluster = try await bench.start()
            #expect(try query(cluster, "SELECT 1") == "1")
            await cluster.stop()
        }
    }

    @Test func foreignThingsInThePlaceAreLeftAlone() async throws {
        try await Workbench.with { bench in
            try FileManager.default.createDirectory(atPath: bench.data, withIntermediateDirectories: true)
            if Self.isRoot { chmod(bench.directory, 0o755) }
            let refused = try await bench.refusal()
            #expect(refused == .notACluster(directory: bench.data))
            try FileManager.default.removeItem(atPath: bench.data)
            try "15\n".write(toFile: bench.directory + "/PG_VERSION", atomically: true, encoding: .utf8)
            let itself = try await bench.refusal()
            #expect(itself == .foreignDataDirectory(directory: bench.directory))
        }
    }

    @Test func aPathThatPostgreSQLCannotTakeIsRefused() async throws {
        try await Workbench.with { bench in
            let long = bench.root + String(repeating: "/" + String(repeating: "d", count: 200), count: 5)
            guard case .pathTooLong = try await bench.refusal(directory: long) else {
                Issue.record("not refused for its length")
                return
            }
        }
    }

    /// sun_path takes 107 bytes; the data directory's length must not matter for it.
    @Test func longPathsStillGetAShortSocket() async throws {
        try await Workbench.with { bench in
            var long = bench.hostEnvironment
            long.runtimeDirectory = bench.root + "/" + String(repeating: "r", count: 100)
            let directory = bench.root + "/" + String(repeating: "d", count: 150)
            let cluster = try await bench.start(long, directory: directory)
            #expect(try query(cluster, "SELECT 1") == "1")
            await cluster.stop()
        }
    }

    @Test func aSocketDirectoryThatAnotherMadeIsNotUsed() throws {
        let bench = try Workbench()
        defer { try? FileManager.default.removeItem(atPath: bench.root) }
        let account = try Account.choose(clusterOwner: nil, directory: bench.data)
        var only = bench.hostEnvironment
        only.runtimeDirectory = nil
        let paths = ClusterPaths(directory: bench.directory)
        let name = try #require(SocketDirectory.candidates(for: paths, account: account, in: only).last)
        // A link to a directory of the right owner and mode, as an attacker in /tmp would set it.
        let target = bench.root + "/target"
        try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: false)
        chmod(target, 0o700)
        chown(target, account.userID, account.groupID)
        try FileManager.default.createSymbolicLink(atPath: name, withDestinationPath: target)
        #expect(SocketDirectory.use(name, account)?.contains("not a directory of user") == true)
        try FileManager.default.removeItem(atPath: name)
        try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: false)
        chown(name, account.userID, account.groupID)
        chmod(name, 0o755)
        #expect(SocketDirectory.use(name, account)?.contains("open to other users") == true)
        chmod(name, 0o700)
        #expect(SocketDirectory.use(name, account) == nil)
    }

    /// The initdb of this test is killed in the middle of its work, like all of a machine that loses power.
    @Test func aKilledInitialisationLeavesNothing() async throws {
        try await Workbench.with { bench in
            let real = try await Binaries.find(for: nil, clusterDirectory: bench.data, in: bench.hostEnvironment)
            let fake = try bench.fakeVersion(
                // Its own children first: they would go on writing for a moment.
                "\(real.directory)/initdb \"$@\" & sleep 0.4; pkill -9 -P $!; kill -9 $!; kill -9 $$",
                postgres: real.postgres)
            guard case .initialisationFailed = try await bench.refusal(fake) else {
                Issue.record("expected a failed initialisation")
                return
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: bench.directory) == ["cluster.lock"])
            // What a daemon leaves that is killed with its initdb.
            let left = bench.directory + "/cluster.new-abcdef/base"
            try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
            let account = try Account.choose(clusterOwner: nil, directory: bench.data)
            for path in [left, bench.directory + "/cluster.new-abcdef"] { chown(path, account.userID, account.groupID) }
            let cluster = try await bench.start()
            #expect(try query(cluster, "SELECT 1") == "1")
            #expect(!FileManager.default.fileExists(atPath: bench.directory + "/cluster.new-abcdef"))
            await cluster.stop()
        }
    }

    @Test func aCancelledStartLeavesNothing() async throws {
        try await Workbench.with { bench in
            let mark = bench.root + "/begun"
            try Data().write(to: URL(fileURLWithPath: mark))
            chmod(mark, 0o666)
            let fake = try bench.fakeVersion("echo begun > \(mark); exec sleep 600", postgres: "/bin/true")
            let start = Task { try await bench.start(fake) }
            while try Data(contentsOf: URL(fileURLWithPath: mark)).isEmpty {
                try await Task.sleep(for: .milliseconds(10))
            }
            start.cancel()
            await #expect(throws: ClusterError.cancelled) { try await start.value }
            #expect(try FileManager.default.contentsOfDirectory(atPath: bench.directory) == ["cluster.lock"])
        }
    }

    /// The end of the server's own log explains a start that failed.
    @Test func aFailedStartQuotesTheLog() async throws {
        try await Workbench.with { bench in
            await (try bench.start()).stop()
            let conf = bench.data + "/postgresql.conf"
            let handle = try #require(FileHandle(forWritingAtPath: conf))
            try handle.seekToEnd()
            try handle.write(contentsOf: Data("\nno_such_setting = 1\n".utf8))
            try handle.close()
            let error = try await bench.refusal()
            #expect("\(error)".contains("no_such_setting"))
        }
    }

    /// A container may not mount; then this is reported as skipped.
    private static var canMount: Bool { isRoot && (try? shell("/usr/bin/unshare", ["-m", "true"]).code) == 0 }

    @Test(.enabled(if: canMount)) func aFullDiskIsNamed() async throws {
        try await Workbench.with { bench in
            try FileManager.default.createDirectory(atPath: bench.directory, withIntermediateDirectories: false)
            let mounted = try shell(
                "/bin/mount", ["-t", "tmpfs", "-o", "size=16m,mode=0755", "tmpfs", bench.directory])
            try #require(mounted.code == 0, "\(mounted.output)")
            let error = try await bench.refusal()
            try shell("/bin/umount", ["-l", bench.directory])
            #expect(error == .diskFull(directory: bench.directory))
        }
    }

    /// As root the server runs as another user; here everything runs as an ordinary one. Root runs this very test anew
    /// as that user, from a copy of the test program that it can reach.
    @Test func worksAsAnOrdinaryUser() async throws {
        guard Self.isRoot else {
            try await Workbench.with { bench in
                let cluster = try await bench.start()
                #expect(try query(cluster, "SELECT current_user") == "posthouse")
                await cluster.stop()
            }
            return
        }
        try await Workbench.with { bench in
            let copy = bench.root + "/tests"
            try FileManager.default.copyItem(atPath: "/proc/self/exe", toPath: copy)
            chmod(copy, 0o755)
            let anew = ["--testing-library", "swift-testing", "--filter", "worksAsAnOrdinaryUser"]
            let (code, output) = try shell("/usr/sbin/runuser", ["-u", "postgres", "--", copy] + anew)
            #expect(code == 0, "\(output)")
            #expect(output.contains("1 test"), "\(output)")
        }
    }
}

extension Workbench {
    /// A host environment with one PostgreSQL 15 whose initdb is this shell script.
    func fakeVersion(_ initdb: String, postgres: String) throws -> HostEnvironment {
        let bin = root + "/versions/15/bin"
        try FileManager.default.createDirectory(atPath: bin, withIntermediateDirectories: true)
        try ("#!/bin/sh\n" + initdb + "\n").write(toFile: bin + "/initdb", atomically: false, encoding: .utf8)
        chmod(bin + "/initdb", 0o755)
        try FileManager.default.createSymbolicLink(atPath: bin + "/postgres", withDestinationPath: postgres)
        var fake = hostEnvironment
        fake.versionsDirectory = root + "/versions"
        return fake
    }
}
