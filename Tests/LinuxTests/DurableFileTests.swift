import Foundation
import Synchronization
import Testing

@testable import Linux

/// Files, locks and jobs of a folder. Oracle: the file system, by Foundation.
@Suite struct DurableFileTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        var template = Array("/tmp/phfilesXXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        let path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        defer { try? FileManager.default.removeItem(atPath: path) }
        try body(path)
    }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    @Test func writesReadsMovesAndRemoves() throws {
        try withFolder { root in
            #expect(try DurableFile.makeFolder(root + "/a/b/"))
            #expect(try !DurableFile.makeFolder(root + "/a/b"))
            #expect(try mode(root + "/a/b") == 0o700)
            let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0) }
            try DurableFile.write(bytes, to: root + "/a/b/one")
            #expect(try mode(root + "/a/b/one") == 0o600)
            #expect(try DurableFile.read(root + "/a/b/one", bytesMax: 1 << 20) == bytes)
            #expect(try DurableFile.read(root + "/a/b/one", bytesMax: 10).count == 11)
            try DurableFile.move(root + "/a/b/one", to: root + "/a/two")
            try DurableFile.sync(folder: root + "/a")
            let files = try DurableFile.files(of: root + "/a")
            #expect(files.map(\.name) == ["two"] && files.map(\.sizeBytes) == [200_000])
            #expect(abs(Double(files[0].writtenAtMilliseconds) / 1_000 - Date().timeIntervalSince1970) < 600)
            #expect(try DurableFile.folders(of: root) == ["a"])
            try DurableFile.remove(root + "/a/two")
            try DurableFile.remove(root + "/a/two")
            try DurableFile.removeFolder(root + "/a/b")
            #expect(try FileManager.default.contentsOfDirectory(atPath: root + "/a").isEmpty)
        }
    }

    @Test func movesInPlaceOfNoFileWhereThatIsAsked() throws {
        try withFolder { root in
            try DurableFile.write([1], to: root + "/one")
            try DurableFile.write([2], to: root + "/two")
            #expect { try DurableFile.move(root + "/one", toUnused: root + "/two") } throws: {
                ($0 as? DurableFile.Failure)?.isTaken == true
            }
            #expect(try DurableFile.read(root + "/one", bytesMax: 9) == [1])
            #expect(try DurableFile.read(root + "/two", bytesMax: 9) == [2])
            try DurableFile.move(root + "/one", toUnused: root + "/three")
            #expect(try Set(DurableFile.files(of: root).map(\.name)) == ["two", "three"])
            #expect { try DurableFile.move(root + "/one", toUnused: root + "/four") } throws: {
                ($0 as? DurableFile.Failure)?.isMissing == true
            }
        }
    }

    @Test func replacesAFileAndWhatAnEarlierCallHasLeft() throws {
        try withFolder { root in
            try DurableFile.replace(root + "/one", with: [1])
            try DurableFile.write([2], to: root + "/one.new")
            try DurableFile.replace(root + "/one", with: [3])
            #expect(try DurableFile.read(root + "/one", bytesMax: 9) == [3])
            #expect(try DurableFile.files(of: root).map(\.name) == ["one"])
            #expect(throws: DurableFile.Failure.self) { try DurableFile.replace(root + "/none/one", with: [1]) }
        }
    }

    @Test func overwritesNothingAndLeavesNothingHalf() throws {
        try withFolder { root in
            try DurableFile.write([1], to: root + "/one")
            #expect(throws: DurableFile.Failure.self) { try DurableFile.write([2], to: root + "/one") }
            #expect(try DurableFile.read(root + "/one", bytesMax: 9) == [1])
            #expect(throws: DurableFile.Failure.self) { try DurableFile.makeFolder(root + "/one") }
            #expect(throws: DurableFile.Failure.self) { try DurableFile.makeFolder(root + "/one/below") }
            #expect { try DurableFile.read(root + "/two", bytesMax: 9) } throws: {
                ($0 as? DurableFile.Failure)?.isMissing == true && "\($0)".contains(root + "/two")
            }
        }
    }

    @Test func aFolderIsLockedOnceUntilItIsLetGo() throws {
        try withFolder { root in
            var lock = try FolderLock.take(in: root)
            #expect(lock != nil)
            #expect(try FolderLock.take(in: root) == nil)
            #expect(FolderLock.isHeld(in: root))
            lock = nil
            // A process that another test starts has a copy of every descriptor until it runs its program.
            for _ in 0..<6_000 {
                lock = try FolderLock.take(in: root)
                if lock != nil { break }
                usleep(50_000)
            }
            #expect(lock != nil)
            #expect(try FolderLock.take(in: root + "/none") == nil)
            #expect(!FolderLock.isHeld(in: root + "/none"))
        }
    }

    @Test func jobsRunInTheirOrderUntilTheThreadStops() async throws {
        let thread = try WorkThread.start()
        let seen = Mutex<[Int]>([])
        for number in 0..<1_000 { thread.post { seen.withLock { $0.append(number) } } }
        #expect(await thread.value { seen.withLock { $0.count } } == 1_000)
        #expect(seen.withLock { $0 } == Array(0..<1_000))
        thread.stop()
        #expect(await thread.value { 1 } == nil && !thread.post {})
    }
}
