import Foundation
import Testing
import Vocabulary

@testable import Cluster

/// What can prevent a start: each a clear error that names the place, or overcome.
@Suite(.serialized, .timeLimit(.minutes(30))) struct ProblemTests {
    private static var isRoot: Bool { geteuid() == 0 }

    @Test func aClusterOfAnotherVersionIsNamed() async throws {
        try await TestPlace.with { place in
            await (try place.start()).stop()
            let file = place.data + "/PG_VERSION"
            try "99\n".write(toFile: file, atomically: false, encoding: .utf8)
            let newer = try await place.refusal()
            #expect("\(newer)".contains("apt install postgresql-99"))
            #expect("\(newer)".contains(place.data))
            try "14\n".write(toFile: file, atomically: false, encoding: .utf8)
            let refused = try await place.refusal()
            #expect(refused == .versionTooOld(directory: place.data, version: 14))
        }
    }

    @Test func withoutBinariesTheErrorSaysWhatToInstall() async throws {
        try await TestPlace.with { place in
            var bare = place.hostEnvironment
            bare.versionsDirectory = place.root + "/none"
            bare.path = place.root
            let error = try await place.refusal(bare)
            #expect("\(error)".contains("apt install postgresql"))
            #expect(!FileManager.default.fileExists(atPath: place.data))
        }
    }

    @Test func binariesOnThePathServeToo() async throws {
        try await TestPlace.with { place in
            let found = try await Binaries.find(for: nil, clusterDirectory: place.data, in: place.hostEnvironment)
            var bare = place.hostEnvironment
            bare.versionsDirectory = place.root + "/none"
            bare.path = place.root + ":" + found.directory
            let onPath = try await Binaries.find(for: nil, clusterDirectory: place.data, in: bare)
            #expect(onPath == found)
        }
    }

    @Test(.enabled(if: isRoot)) func anUnsearchableParentIsNamed() async throws {
        try await TestPlace.with { place in
            let closed = place.root + "/closed"
            try FileManager.default.createDirectory(atPath: closed, withIntermediateDirectories: false)
            chmod(closed, 0o700)
            let error = try await place.refusal(directory: closed + "/deeper/state")
            guard case .unsearchable(let directory, _) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(directory == closed)
        }
    }

    /// What `mktemp -d` makes as root: empty and closed, so it is handed over; with other things in it, it is not.
    @Test(.enabled(if: isRoot)) func aClosedDirectoryOfRootIsHandedOverOnlyWhenItHoldsNothingElse() async throws {
        try await TestPlace.with { place in
            try FileManager.default.createDirectory(atPath: place.directory, withIntermediateDirectories: false)
            chmod(place.directory, 0o700)
            try Data().write(to: URL(fileURLWithPath: place.directory + "/keys"))
            let error = try await place.refusal()
            #expect("\(error)".contains("may not pass through \(place.directory)"))
            try FileManager.default.removeItem(atPath: place.directory + "/keys")
            let cluster = try await place.start()
            #expect(try query(cluster, "SELECT 1") == "1")
            await cluster.stop()
        }
    }

    @Test func foreignThingsInThePlaceAreLeftAlone() async throws {
        try await TestPlace.with { place in
            try FileManager.default.createDirectory(atPath: place.data, withIntermediateDirectories: true)
            if Self.isRoot { chmod(place.directory, 0o755) }
            let refused = try await place.refusal()
            #expect(refused == .notACluster(directory: place.data))
            try FileManager.default.removeItem(atPath: place.data)
            // Data that was moved to another disk by hand: moved away, the link would be followed by an empty ledger.
            try FileManager.default.createSymbolicLink(atPath: place.data, withDestinationPath: place.root + "/moved")
            #expect(try await place.refusal() == .isLink(path: place.data, target: place.root + "/moved"))
            try FileManager.default.removeItem(atPath: place.data)
            try "15\n".write(toFile: place.directory + "/PG_VERSION", atomically: true, encoding: .utf8)
            let itself = try await place.refusal()
            #expect(itself == .foreignDataDirectory(directory: place.directory))
        }
    }

    @Test func aPathThatPostgreSQLCannotTakeIsRefused() async throws {
        try await TestPlace.with { place in
            let long = place.root + String(repeating: "/" + String(repeating: "d", count: 200), count: 5)
            guard case .pathTooLong = try await place.refusal(directory: long) else {
                Issue.record("not refused for its length")
                return
            }
        }
    }

    /// sun_path takes 107 bytes; the data directory's length must not matter for it.
    @Test func longPathsStillGetAShortSocket() async throws {
        try await TestPlace.with { place in
            var long = place.hostEnvironment
            long.runtimeDirectory = place.root + "/" + String(repeating: "r", count: 100)
            let directory = place.root + "/" + String(repeating: "d", count: 150)
            let cluster = try await place.start(long, directory: directory)
            #expect(try query(cluster, "SELECT 1") == "1")
            await cluster.stop()
        }
    }

    @Test func aSocketDirectoryThatAnotherMadeIsNotUsed() throws {
        let place = try TestPlace()
        defer { try? FileManager.default.removeItem(atPath: place.root) }
        let account = try Account.choose(clusterOwner: nil, directory: place.data)
        var only = place.hostEnvironment
        only.runtimeDirectory = nil
        let paths = ClusterPaths(directory: place.directory)
        let name = try #require(SocketDirectory.candidates(for: paths, account: account, in: only).last)
        // A link to a directory of the right owner and mode, as an attacker in /tmp would set it.
        let target = place.root + "/target"
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
        try await TestPlace.with { place in
            let real = try await Binaries.find(for: nil, clusterDirectory: place.data, in: place.hostEnvironment)
            let fake = try place.fakeVersion(
                // Its own children first: they would go on writing for a moment.
                "\(real.directory)/initdb \"$@\" & sleep 0.4; pkill -9 -P $!; kill -9 $!; kill -9 $$",
                postgres: real.postgres)
            guard case .initialisationFailed = try await place.refusal(fake) else {
                Issue.record("expected a failed initialisation")
                return
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: place.directory) == ["cluster.lock"])
            // What a daemon leaves that is killed with its initdb.
            let left = place.directory + "/cluster.new-abcdef/base"
            try FileManager.default.createDirectory(atPath: left, withIntermediateDirectories: true)
            let account = try Account.choose(clusterOwner: nil, directory: place.data)
            for path in [left, place.directory + "/cluster.new-abcdef"] { chown(path, account.userID, account.groupID) }
            let cluster = try await place.start()
            #expect(try query(cluster, "SELECT 1") == "1")
            #expect(!FileManager.default.fileExists(atPath: place.directory + "/cluster.new-abcdef"))
            await cluster.stop()
        }
    }

    @Test func aCancelledStartLeavesNothing() async throws {
        try await TestPlace.with { place in
            let mark = place.root + "/begun"
            try Data().write(to: URL(fileURLWithPath: mark))
            chmod(mark, 0o666)
            let fake = try place.fakeVersion("echo begun > \(mark); exec sleep 600", postgres: "/bin/true")
            let start = Task { try await place.start(fake) }
            while try Data(contentsOf: URL(fileURLWithPath: mark)).isEmpty {
                try await Task.sleep(for: .milliseconds(10))
            }
            start.cancel()
            await #expect(throws: ClusterError.cancelled) { try await start.value }
            #expect(try FileManager.default.contentsOfDirectory(atPath: place.directory) == ["cluster.lock"])
        }
    }

    /// The end of the server's own log explains a start that failed.
    @Test func aFailedStartQuotesTheLog() async throws {
        try await TestPlace.with { place in
            await (try place.start()).stop()
            let conf = place.data + "/postgresql.conf"
            let handle = try #require(FileHandle(forWritingAtPath: conf))
            try handle.seekToEnd()
            try handle.write(contentsOf: Data("\nno_such_setting = 1\n".utf8))
            try handle.close()
            let error = try await place.refusal()
            #expect("\(error)".contains("no_such_setting"))
        }
    }

    /// A container may not mount; then this is reported as skipped.
    private static var canMount: Bool { isRoot && (try? shell("/usr/bin/unshare", ["-m", "true"]).code) == 0 }

    @Test(.enabled(if: canMount)) func aFullDiskIsNamed() async throws {
        try await TestPlace.with { place in
            try FileManager.default.createDirectory(atPath: place.directory, withIntermediateDirectories: false)
            let mounted = try shell(
                "/bin/mount", ["-t", "tmpfs", "-o", "size=16m,mode=0755", "tmpfs", place.directory])
            try #require(mounted.code == 0, "\(mounted.output)")
            let error = try await place.refusal()
            try shell("/bin/umount", ["-l", place.directory])
            #expect(error == .diskFull(directory: place.directory))
        }
    }

    /// As root the server runs as another user; here everything runs as an ordinary one. Root runs this very test anew
    /// as that user, from a copy of the test program that it can reach.
    @Test func worksAsAnOrdinaryUser() async throws {
        guard Self.isRoot else {
            try await TestPlace.with { place in
                let cluster = try await place.start()
                #expect(try query(cluster, "SELECT current_user") == "posthouse")
                await cluster.stop()
            }
            return
        }
        try await runAnew("worksAsAnOrdinaryUser", by: Self.asOrdinaryUser)
    }

    /// Root may look into every process, and so runs this anew, too. The server is one as a unit hides it: its process
    /// takes signals, and its working directory may not be seen, here because its program may not be read (ptrace(2)).
    @Test func aPostgreSQLThatCannotBeLookedIntoIsNotReplaced() async throws {
        guard Self.isRoot else {
            try await TestPlace.with { place in
                await (try place.start()).stop()
                let program = place.root + "/postgres"
                try shell("/bin/cp", ["-L", "/bin/sh", program])
                chmod(program, 0o111)
                let hidden = Process()
                hidden.executableURL = URL(fileURLWithPath: program)
                hidden.arguments = ["-c", "read line"]
                // Nobody writes to it.
                hidden.standardInput = Pipe()
                try hidden.run()
                // It has the blocked signals of the thread that started it.
                defer { if hidden.isRunning { kill(hidden.processIdentifier, SIGKILL) } }
                let file = PostmasterFile.path(in: place.data)
                let text = "\(hidden.processIdentifier)\n\(place.data)\n1700000000\n5432\n\(place.sockets)\n"
                try text.write(toFile: file, atomically: false, encoding: .utf8)
                let error = try await place.refusal()
                #expect(error == .hiddenProcess(lockFile: file, pid: hidden.processIdentifier))
                #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
                kill(hidden.processIdentifier, SIGKILL)
                hidden.waitUntilExit()
                let cluster = try await place.start()
                #expect(try query(cluster, "SELECT 1") == "1")
                await cluster.stop()
            }
            return
        }
        try await runAnew("aPostgreSQLThatCannotBeLookedIntoIsNotReplaced", by: Self.asOrdinaryUser)
    }

    /// The server's user passes through the directories that root makes. A umask is the whole process's: this runs anew
    /// in one of its own.
    @Test(.enabled(if: isRoot)) func aUmaskThatTakesEverythingFromOthersDoesNotHinderTheStart() async throws {
        guard try String(contentsOfFile: "/proc/self/status", encoding: .utf8).contains("\nUmask:\t0077\n") else {
            return try await runAnew(
                "aUmaskThatTakesEverythingFromOthersDoesNotHinderTheStart",
                by: ["/bin/sh", "-c", "umask 077; exec \"$@\"", "sh"])
        }
        try await TestPlace.with { place in
            var other = place.hostEnvironment
            other.runtimeDirectory = place.root + "/made"
            let cluster = try await place.start(other, directory: place.root + "/deeper/state")
            #expect(cluster.connectionString.contains(place.root + "/made"))
            #expect(try query(cluster, "SELECT 1") == "1")
            await cluster.stop()
        }
    }

    private static let asOrdinaryUser = ["/usr/sbin/runuser", "-u", "postgres", "--"]

    /// Runs one test of this suite anew, from a copy of the test program that every user can reach.
    /// - Parameter launcher: a program that runs what follows its arguments.
    private func runAnew(_ test: String, by launcher: [String]) async throws {
        try await TestPlace.with { place in
            let copy = place.root + "/tests"
            try FileManager.default.copyItem(atPath: "/proc/self/exe", toPath: copy)
            chmod(copy, 0o755)
            let anew = ["--testing-library", "swift-testing", "--filter", test]
            let (code, output) = try shell(launcher[0], Array(launcher.dropFirst()) + [copy] + anew)
            #expect(code == 0, "\(output)")
            #expect(output.contains("1 test"), "\(output)")
        }
    }
}

extension TestPlace {
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
