import Foundation
import Testing

@testable import Linux

@Suite struct DiskSpaceTests {
    private let gib = 1 << 30

    private func space(_ available: Int, of size: Int) -> DiskSpace {
        DiskSpace(sizeBytes: size, availableBytes: available)
    }

    /// Oracle: df(1).
    @Test func asDfSaysIt() throws {
        let df = Process()
        let pipe = Pipe()
        df.executableURL = URL(filePath: "/bin/df")
        df.arguments = ["-B1", "--output=size", "/"]
        df.standardOutput = pipe
        try df.run()
        df.waitUntilExit()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let size = text.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) }
        let root = try #require(DiskSpace.of(path: "/"))
        #expect(root.sizeBytes == size)
        #expect((1...root.sizeBytes).contains(root.availableBytes))
        #expect(DiskSpace.of(path: "/nowhere/at/all") == nil)
    }

    @Test func lowIsBelowATenthAndBelowTenGibibytes() {
        #expect(space(1 * gib, of: 20 * gib).isLow)
        #expect(!space(2 * gib, of: 20 * gib).isLow)
        #expect(!space(10 * gib, of: 1_000 * gib).isLow)
        #expect(space(9 * gib, of: 1_000 * gib).isLow)
        #expect(space(0, of: 0).isLow == false)
    }

    @Test func saidOnceUntilThereWasRoom() {
        var watch = DiskWatch()
        let size = 20 * gib
        #expect(watch.look(space(5 * gib, of: size)) == false)
        #expect(watch.look(space(1 * gib, of: size)) == true)
        #expect(watch.look(space(1 * gib, of: size)) == false)
        // At the edge: no longer low, and no room either.
        #expect(watch.look(space(2 * gib + 1, of: size)) == false)
        #expect(watch.look(space(1 * gib, of: size)) == false)
        #expect(watch.look(space(3 * gib, of: size)) == false)
        #expect(watch.look(space(1 * gib, of: size)) == true)
    }
}
