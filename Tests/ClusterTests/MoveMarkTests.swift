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
