import Foundation
import Testing

@testable import Cluster

/// What a private cluster remembers of having been moved. Oracle: the file itself.
@Suite struct MoveMarkTests {
    @Test func writtenReadReplacedRemoved() throws {
        let place = try TestPlace()
        defer { try? FileManager.default.removeItem(atPath: place.root) }
        let directory = place.directory
        try FileManager.default.createDirectory(atPath: place.data, withIntermediateDirectories: true)
        #expect(ClusterMove.read(in: directory) == nil)
        let moving = ClusterMove(.moving, at: "2026-11-21T18:00:00.000Z", to: "host=/run/a b dbname=c")
        try moving.write(in: directory)
        #expect(ClusterMove.read(in: directory) == moving)
        let moved = ClusterMove(.moved, at: "2026-11-21T18:00:01.000Z", to: moving.target)
        try moved.write(in: directory)
        #expect(ClusterMove.read(in: directory) == moved)
        let text = try String(contentsOfFile: ClusterMove.path(in: directory), encoding: .utf8)
        #expect(text == "moved 2026-11-21T18:00:01.000Z host=/run/a b dbname=c\n")
        try ClusterMove.remove(in: directory)
        try ClusterMove.remove(in: directory)
        #expect(ClusterMove.read(in: directory) == nil)
    }

    /// Nobody serves on a cluster of which it is not known whether it was moved.
    @Test(arguments: ["", "moved", "gone 1 2\n", "moved 2026-11-21T18:00:00.000Z\n"])
    func unreadable(text: String) throws {
        let place = try TestPlace()
        defer { try? FileManager.default.removeItem(atPath: place.root) }
        try FileManager.default.createDirectory(atPath: place.data, withIntermediateDirectories: true)
        try text.write(toFile: ClusterMove.path(in: place.directory), atomically: false, encoding: .utf8)
        #expect(ClusterMove.read(in: place.directory)?.stage == .moving)
    }
}

/// What a private cluster remembers of having been found empty. Oracle: the control file, which PostgreSQL writes at
/// each start.
@Suite struct EmptyMarkTests {
    @Test("It holds for a stopped server, until the cluster is used again")
    func holds() throws {
        let place = try TestPlace()
        defer { try? FileManager.default.removeItem(atPath: place.root) }
        let (directory, control) = (place.directory, place.data + "/global/pg_control")
        EmptyCluster.record(in: directory)
        #expect(!EmptyCluster.isRecorded(in: directory), "there is no cluster")
        try FileManager.default.createDirectory(atPath: place.data + "/global", withIntermediateDirectories: true)
        try Data([1, 0xff, 0]).write(to: URL(fileURLWithPath: control))
        #expect(!EmptyCluster.isRecorded(in: directory))
        EmptyCluster.record(in: directory)
        #expect(EmptyCluster.isRecorded(in: directory))

        let pid = URL(fileURLWithPath: place.data + "/postmaster.pid")
        try Data().write(to: pid)
        #expect(!EmptyCluster.isRecorded(in: directory), "a server runs")
        try FileManager.default.removeItem(at: pid)
        #expect(EmptyCluster.isRecorded(in: directory))
        try Data([1, 0xff, 1]).write(to: URL(fileURLWithPath: control))
        #expect(!EmptyCluster.isRecorded(in: directory), "it was used")
    }
}
