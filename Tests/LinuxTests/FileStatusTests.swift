import Foundation
import Glibc
import Linux
import Testing

/// Oracle: what the test has made, and chmod(2).
@Suite("Files, users and disks of this machine")
struct FileStatusTests {
    private func temporaryDirectory() throws -> URL {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("linux-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory.resolvingSymlinksInPath()
    }

    @Test("A file has its kind, its owner, its permissions and its size; one that is not there is missing")
    func status() throws {
        let directory = try temporaryDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appendingPathComponent("secret").path
        try Data("four".utf8).write(to: URL(fileURLWithPath: file))
        #expect(chmod(file, 0o640) == 0)
        let status = try FileStatus.of(file)
        #expect(status.kind == .regular && status.mode == 0o640 && status.sizeBytes == 4)
        #expect(status.owner == getuid() && status.path == file)
        #expect(try FileStatus.of(directory.path).kind == .directory)
        #expect(throws: FileStatus.Failure.missing) { try FileStatus.of(file + "/below") }
        #expect(throws: FileStatus.Failure.missing) { try FileStatus.way(to: file + ".away") }
    }

    @Test("The way to a file has its directories from the root on, and those behind a link")
    func way() throws {
        let directory = try temporaryDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        let (behind, file) = (directory.path + "/behind", directory.path + "/behind/file")
        try FileManager.default.createDirectory(atPath: behind, withIntermediateDirectories: false)
        try Data().write(to: URL(fileURLWithPath: file))
        let link = directory.path + "/link"
        #expect(symlink(file, link) == 0)
        let direct = try FileStatus.way(to: file).map(\.path)
        #expect(direct.first == "/" && direct.suffix(3) == [directory.path, behind, file])
        let linked = try FileStatus.way(to: link).map(\.path)
        #expect(Set(linked).isSuperset(of: ["/", directory.path, behind]) && linked.last == file)
        #expect(Set(linked).count == linked.count)
    }

    @Test("A user has its name, its number and its groups; a number is a user, too")
    func users() throws {
        let root = try #require(SystemUser.named("root"))
        #expect(root.id == 0 && root.name == "root" && root.groupName == "root" && root.groups.contains(0))
        #expect(SystemUser.named("0") == root)
        #expect(SystemUser.named("no-such-user-\(getpid())") == nil)
    }

    @Test("A disk has a size, and not more space than that; what is not there has none")
    func disk() throws {
        let space = try #require(DiskSpace.of(path: "/"))
        #expect(space.sizeBytes > 0 && space.availableBytes <= space.sizeBytes && space.availableBytes >= 0)
        #expect(DiskSpace.of(path: "/nowhere/at/all") == nil)
    }
}
