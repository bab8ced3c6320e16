import Foundation
import Glibc
import Linux
import Synchronization
import Testing
import Vocabulary

@testable import Spool

/// The spool on a real disk. Oracle: the files, and the webhooks that were written.
@Suite("The spool")
struct SpoolTests {
    /// A directory that goes away, and what was observed.
    private final class Place: Sendable {
        let directory: String
        private let seen = Mutex<[Observation]>([])

        init() throws {
            var template = Array("/tmp/phspoolXXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else { throw POSIXError(.EIO) }
            directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) } + "/spool"
        }

        deinit { try? FileManager.default.removeItem(atPath: (directory as NSString).deletingLastPathComponent) }

        var observe: Observer { { observation in self.seen.withLock { $0.append(observation) } } }
        var observed: [Observation] { seen.withLock { $0 } }

        func open(
            max bytesMax: Int = 1 << 30, now: @escaping @Sendable () -> Timestamp = { Timestamp(milliseconds: 1_000) }
        ) async throws -> Spool {
            try await Spool.open(directory: directory, bytesMax: bytesMax, now: now, observe: observe)
        }

        var warnings: [String] {
            observed.compactMap { if case .warning(let text) = $0 { text } else { nil } }
        }

        func path(_ file: SpoolFile) -> String { directory + "/" + file.relativePath }

        /// As somebody copies a file of another spool there.
        func copy(_ webhook: SpooledWebhook, to folder: String, as name: String) throws {
            try Data(webhook.file).write(to: URL(fileURLWithPath: directory + "/" + folder + "/" + name))
        }

        /// The only folder, without a file in it or with some.
        var folder: String { get throws { try #require(DurableFile.folders(of: directory).first) } }

        /// Flips a bit of a file.
        func damage(_ file: SpoolFile) throws {
            var bytes = try Data(contentsOf: URL(fileURLWithPath: path(file)))
            bytes[bytes.count - 1] ^= 1
            try bytes.write(to: URL(fileURLWithPath: path(file)))
        }

        /// The names of all files below, relative; without locks.
        var files: [String] {
            let all = FileManager.default.enumerator(atPath: directory)?.compactMap { $0 as? String } ?? []
            return all.filter { name in
                var isFolder: ObjCBool = false
                _ = FileManager.default.fileExists(atPath: directory + "/" + name, isDirectory: &isFolder)
                return !isFolder.boolValue && !name.hasSuffix("/lock")
            }.sorted()
        }

        /// Whether no process has the lock of a folder.
        func isFree(_ folder: String) throws -> Bool { try FolderLock.take(in: directory + "/" + folder) != nil }

        func mode(_ name: String) throws -> Int {
            let path = name.isEmpty ? directory : directory + "/" + name
            return try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
        }
    }

    private static func webhook(_ number: Int, source: String = "apphud", bytes: Int = 20) -> SpooledWebhook {
        SpooledWebhook(
            source: source, receivedAt: Timestamp(milliseconds: Int64(number)), headers: [],
            body: Array("\(number) ".utf8) + [UInt8](repeating: 120, count: bytes))
    }

    private func write(_ webhook: SpooledWebhook, to spool: Spool?) async -> Spool.Answer {
        guard let spool else { return .refused(reason: "there is no spool") }
        return await withCheckedContinuation { continuation in
            spool.write(webhook, because: "a test") { continuation.resume(returning: $0) }
        }
    }

    /// Waits for a condition that comes by itself.
    private func comes(_ condition: () async -> Bool) async -> Bool {
        for _ in 0..<6_000 {
            if await condition() { return true }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return false
    }

    @Test("What is written can be read in its order, and is gone once it is removed; only its user may look at it")
    func order() async throws {
        let place = try Place()
        let spool = try await place.open()
        for number in 0..<12 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        #expect(spool.figures.webhooks == 12 && spool.figures.bytes == 12 * 4_096)
        #expect(place.files.count == 12)
        for name in place.files { #expect(try place.mode(name) == 0o600) }
        #expect(try place.mode("") == 0o700)
        let folder = try #require(place.files.first?.split(separator: "/").first.map(String.init))
        #expect(try place.mode(folder) == 0o700)

        let files = await spool.files()
        #expect(files.map(\.name.source) == [String](repeating: "apphud", count: 12))
        let read = await spool.read(files)
        #expect(read.map(\.webhook) == (0..<12).map { Self.webhook($0) })
        #expect(await spool.remove(Array(files.prefix(11))))
        #expect(spool.figures.webhooks == 1 && place.files.count == 1)
        #expect(await spool.remove(Array(files.suffix(1))))
        #expect(spool.figures == SpoolFigures() && place.files.isEmpty)
        let seen = place.observed.map { "\($0)" }
        #expect(seen == [#"spoolingBegan(reason: "a test")"#, "spoolEmptied(count: 12)"])
        await spool.close()
    }

    @Test("Many at once are all written, each once")
    func atOnce() async throws {
        let place = try Place()
        let spool = try await place.open()
        let answers = await withTaskGroup(of: Spool.Answer.self) { group in
            for number in 0..<300 { group.addTask { await write(Self.webhook(number), to: spool) } }
            return await group.reduce(into: [Spool.Answer]()) { $0.append($1) }
        }
        #expect(answers == [Spool.Answer](repeating: .written, count: 300))
        let read = await spool.read(await spool.files())
        #expect(Set(read.map(\.webhook)) == Set((0..<300).map { Self.webhook($0) }) && read.count == 300)
        await spool.close()
    }

    @Test("What a daemon left that is gone is found by the next, behind it nothing unfinished")
    func restart() async throws {
        let place = try Place()
        var first: Spool? = try await place.open()
        for number in 0..<3 { #expect(await write(Self.webhook(number), to: first) == .written) }
        await first?.close()
        first = nil
        let folder = try #require(place.files.first?.split(separator: "/").first.map(String.init))
        let unfinished = place.directory + "/" + folder + "/tmp/0000000000000009.apphud"
        try Data("half".utf8).write(to: URL(fileURLWithPath: unfinished))

        var second: Spool?
        #expect(
            await comes {
                second = try? await place.open()
                if second?.figures.webhooks == 3 { return true }
                await second?.close()
                return false
            })
        let spool = try #require(second)
        #expect(!FileManager.default.fileExists(atPath: unfinished))
        #expect(place.observed.contains { if case .spoolAdopted(folder, 3) = $0 { true } else { false } })
        // New files come behind those that were there.
        #expect(await write(Self.webhook(3), to: spool) == .written)
        #expect(await spool.read(await spool.files()).map(\.webhook) == (0..<4).map { Self.webhook($0) })
        await spool.close()
    }

    @Test("Two daemons have a folder each; one whose daemon is gone is adopted, and removed once it is empty")
    func twoDaemons() async throws {
        let place = try Place()
        var first: Spool? = try await place.open()
        let second = try await place.open()
        #expect(await write(Self.webhook(1), to: first) == .written)
        #expect(await write(Self.webhook(2, source: "other"), to: second) == .written)
        await second.look()
        #expect(await second.files().map(\.name.source) == ["other"], "the first is at work")
        let folders = { try FileManager.default.contentsOfDirectory(atPath: place.directory).count }
        #expect(try folders() == 2)

        await first?.close()
        first = nil
        #expect(
            await comes {
                await second.look()
                return second.figures.webhooks == 2
            })
        let files = await second.files()
        #expect(files.map(\.name.source) == ["apphud", "other"])
        #expect(await second.remove(files))
        for _ in 0..<2 { await second.look() }
        #expect(try folders() == 1)
        await second.close()
    }

    @Test("A full spool refuses, says so once, and takes webhooks again when there is room")
    func full() async throws {
        let place = try Place()
        // A webhook reserves its body and the text before it, in blocks; on the disk it takes one block.
        let reserved = SpoolTally.blocks(of: Self.webhook(0).body.count + SpooledWebhook.textBytesMax)
        let spool = try await place.open(max: reserved + 4_096)
        #expect(await write(Self.webhook(0), to: spool) == .written)
        #expect(await write(Self.webhook(1), to: spool) == .written)
        for number in 2..<5 {
            guard case .refused(let reason) = await write(Self.webhook(number), to: spool) else {
                Issue.record("it was taken")
                continue
            }
            #expect(reason.contains("the spool is full") && reason.contains("[spool] max"))
        }
        #expect(!spool.hasRoom && place.files.count == 2)
        #expect(place.observed.filter { if case .spoolRefused = $0 { true } else { false } }.count == 1)
        #expect(await spool.remove(Array(await spool.files().prefix(1))))
        #expect(await write(Self.webhook(5), to: spool) == .written)
        await spool.close()
        guard case .refused = await write(Self.webhook(6), to: spool) else {
            Issue.record("a spool that is closed takes nothing")
            return
        }
    }

    @Test("A spool in which nothing was written leaves no folder behind")
    func closedEmpty() async throws {
        let place = try Place()
        let daemon = try await place.open()
        #expect(await write(Self.webhook(0), to: daemon) == .written)
        let command = try await place.open()
        await command.close()
        #expect(await comes { (try? DurableFile.folders(of: place.directory).count) == 1 })
        #expect(await daemon.files().count == 1)
        await daemon.close()
        #expect(try SpoolFile.all(in: place.directory).files.count == 1, "what waits stays")
    }

    @Test("A file that cannot be read is set aside and reported; the others go on")
    func damaged() async throws {
        let place = try Place()
        let spool = try await place.open()
        for number in 0..<3 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        let files = await spool.files()
        try place.damage(files[1])
        #expect(await spool.read(files).map(\.webhook) == [Self.webhook(0), Self.webhook(2)])
        let aside = "damaged/" + files[1].folder + "-" + files[1].name.text
        #expect(place.files.contains(aside) && spool.figures.webhooks == 2)
        #expect(SpoolFile.damaged(in: place.directory) == [aside])
        let reported = place.observed.contains { observation in
            guard case .spoolDamaged(place.directory + "/" + aside, let reason) = observation else { return false }
            return reason.contains("checksum")
        }
        #expect(reported)
        #expect(await spool.files().count == 2)
        await spool.close()
        #expect(try SpoolFile.all(in: place.directory).files.count == 2)
    }

    @Test("A damaged file never takes the place of another that was set aside before a restart")
    func damagedTwice() async throws {
        let place = try Place()
        for number in 0..<2 {
            var spool: Spool? = try await place.open()
            #expect(await write(Self.webhook(number), to: spool) == .written)
            let files = await spool?.files() ?? []
            try #require(files.count == 1)
            try place.damage(files[0])
            #expect(await spool?.read(files).isEmpty == true)
            await spool?.close()
            spool = nil
            // The next is to take the same folder.
            #expect(await comes { (try? place.isFree(files[0].folder)) == true })
        }
        #expect(SpoolFile.damaged(in: place.directory).count == 2)
    }

    @Test("What cannot be read now stays where it is and is tried again; it is reported once, and the others go on")
    func unreadable() async throws {
        let place = try Place()
        let spool = try await place.open()
        for number in 0..<3 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        let files = await spool.files()
        // A socket cannot be opened (ENXIO), which no disk is to blame for.
        let path = place.path(files[1])
        try FileManager.default.moveItem(atPath: path, toPath: path + ".kept")
        let socket = try Self.socket(at: path)
        for _ in 0..<3 { #expect(await spool.read(files).map(\.webhook) == [Self.webhook(0), Self.webhook(2)]) }
        #expect(place.warnings.count == 1 && place.warnings[0].contains(files[1].relativePath), "\(place.warnings)")
        close(socket)
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.moveItem(atPath: path + ".kept", toPath: path)
        #expect(await spool.read(files).map(\.webhook) == (0..<3).map { Self.webhook($0) })
        #expect(spool.figures.webhooks == 3 && SpoolFile.damaged(in: place.directory).isEmpty)
        await spool.close()
    }

    private static func socket(at path: String) throws -> Int32 {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        try #require(path.utf8.count < MemoryLayout.size(ofValue: address.sun_path))
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
        return descriptor
    }

    @Test("A file of another version waits for a daemon that can read it; the others go on")
    func otherVersion() async throws {
        let place = try Place()
        let spool = try await place.open()
        for number in 0..<2 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        let files = await spool.files()
        try Data("posthouse-spool 2\nsomething new".utf8).write(to: URL(fileURLWithPath: place.path(files[0])))
        for _ in 0..<2 { #expect(await spool.read(files).map(\.webhook) == [Self.webhook(1)]) }
        #expect(place.warnings.count == 1 && SpoolFile.damaged(in: place.directory).isEmpty)
        #expect(spool.figures.webhooks == 2)
        await spool.close()
    }

    @Test("A file that cannot be removed holds up no other")
    func lasting() async throws {
        let place = try Place()
        let spool = try await place.open()
        for number in 0..<3 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        let files = await spool.files()
        // A folder cannot be unlinked.
        try FileManager.default.removeItem(atPath: place.path(files[0]))
        try FileManager.default.createDirectory(atPath: place.path(files[0]), withIntermediateDirectories: false)
        for _ in 0..<2 { #expect(await !spool.remove(files)) }
        #expect(place.files.isEmpty && place.warnings.count == 1)
        #expect(await spool.files().isEmpty)
        #expect(spool.figures == SpoolFigures())
        await spool.close()
    }

    @Test("A file that somebody has copied there is found and counted, and none takes its name")
    func copied() async throws {
        let place = try Place()
        let spool = try await place.open()
        #expect(await write(Self.webhook(0), to: spool) == .written)
        let folder = try #require(await spool.files().first?.folder)
        let copy = place.directory + "/" + folder + "/" + SpoolName(number: 3, source: "apphud").text
        try Data(Self.webhook(100).file).write(to: URL(fileURLWithPath: copy))
        #expect(await spool.files().count == 2)
        #expect(spool.figures.webhooks == 2 && spool.figures.bytes == 2 * 4_096)
        for number in 1..<5 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        let waiting = await spool.files()
        #expect(Set(await spool.read(waiting).map(\.webhook)) == Set(([100] + Array(0..<5)).map { Self.webhook($0) }))
        #expect(await spool.remove(waiting))
        #expect(spool.figures == SpoolFigures() && place.files.isEmpty)
        await spool.close()
    }

    @Test("What is copied into an adopted folder that was emptied is found; only one that stays empty is removed")
    func copiedOn() async throws {
        let place = try Place()
        let spool = try await place.open()
        let folder = "00000000000000bb"
        let path = place.directory + "/" + folder
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        await spool.look()
        #expect(FileManager.default.fileExists(atPath: path), "the copy begins with the folder")
        for number in 1...2 {
            try place.copy(
                Self.webhook(number), to: folder, as: SpoolName(number: UInt64(number), source: "apphud").text)
            await spool.look()
            #expect(spool.figures.webhooks == 1)
            let files = await spool.files()
            #expect(await spool.read(files).map(\.webhook) == [Self.webhook(number)])
            #expect(await spool.remove(files))
            await spool.look()
            #expect(FileManager.default.fileExists(atPath: path) && spool.figures == SpoolFigures())
        }
        await spool.look()
        #expect(!FileManager.default.fileExists(atPath: path))
        await spool.close()
    }

    @Test("A look announces what was copied into a folder while nothing waited, the daemon's own or another")
    func arrivals() async throws {
        let place = try Place()
        let spool = try await place.open()
        let own = try place.folder
        var arrivals = spool.arrivals.makeAsyncIterator()
        let name = SpoolName(number: 7, source: "apphud").text
        try place.copy(Self.webhook(7), to: own, as: name)
        await spool.look()
        try #require(spool.figures.webhooks == 1)
        let isOwnAnnounced = await arrivals.next() != nil
        #expect(isOwnAnnounced)
        #expect(await spool.remove(await spool.files()))

        let folder = "00000000000000bb"
        try FileManager.default.createDirectory(
            atPath: place.directory + "/" + folder, withIntermediateDirectories: false)
        await spool.look()
        try place.copy(Self.webhook(8), to: folder, as: name)
        await spool.look()
        try #require(spool.figures.webhooks == 1)
        let isOtherAnnounced = await arrivals.next() != nil
        #expect(isOtherAnnounced)
        await spool.close()
    }

    @Test("A file that was copied into the own folder waits until it is recorded, however often that fails")
    func copiedAndTriedAgain() async throws {
        let place = try Place()
        let spool = try await place.open()
        #expect(await write(Self.webhook(0), to: spool) == .written)
        try place.copy(Self.webhook(9), to: try place.folder, as: SpoolName(number: 9, source: "apphud").text)
        // Its writer may not have ended yet.
        for _ in 0..<3 { #expect(await comes { await spool.files().count == 2 && spool.figures.webhooks == 2 }) }
        #expect(await spool.remove(await spool.files()))
        #expect(place.files.isEmpty && spool.figures == SpoolFigures())
        await spool.close()
    }

    @Test("A webhook takes the place of no file that was copied there unnoticed")
    func unnoticed() async throws {
        let place = try Place()
        let spool = try await place.open()
        #expect(await write(Self.webhook(1), to: spool) == .written)
        for number in 2...4 {
            try place.copy(
                Self.webhook(100 + number), to: try place.folder,
                as: SpoolName(number: UInt64(number), source: "apphud").text)
        }
        #expect(await write(Self.webhook(2), to: spool) == .written)
        let read = await spool.read(await spool.files())
        #expect(read.map(\.webhook) == [1, 102, 103, 104, 2].map { Self.webhook($0) })
        #expect(!place.files.contains { $0.contains("/tmp/") })
        await spool.close()
    }

    @Test("A name with the greatest number keeps no webhook from being written, and one beyond it is nobody's")
    func greatestNumber() async throws {
        let place = try Place()
        let spool = try await place.open()
        #expect(await write(Self.webhook(0), to: spool) == .written)
        let folder = try place.folder
        try place.copy(Self.webhook(100), to: folder, as: "9999999999999999.apphud")
        try place.copy(Self.webhook(200), to: folder, as: "18446744073709551615.apphud")
        #expect(await spool.files().count == 2)
        for number in 1..<3 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        let waiting = await spool.files()
        #expect(await spool.read(waiting).map(\.webhook) == [0, 1, 2, 100].map { Self.webhook($0) })
        #expect(SpoolName.newest(of: waiting.map(\.name)) == 3)
        #expect(SpoolName("18446744073709551615.apphud") == nil)
        await spool.close()
    }

    @Test("A folder that cannot be taken is reported once and keeps no daemon from its own")
    func untakeable() async throws {
        let place = try Place()
        // A lock that is a folder cannot be opened.
        let folder = "00000000000000aa"
        try FileManager.default.createDirectory(
            atPath: place.directory + "/" + folder + "/lock", withIntermediateDirectories: true)
        let spool = try await place.open()
        #expect(await write(Self.webhook(0), to: spool) == .written)
        for _ in 0..<2 { await spool.look() }
        #expect(place.warnings.count == 1 && place.warnings[0].contains("folder \(folder)"), "\(place.warnings)")
        #expect(await spool.files().count == 1)
        await spool.close()
    }

    @Test("A clock that is set back changes neither the order nor what is found; the oldest is the earliest time")
    func clockSetBack() async throws {
        let place = try Place()
        let hours = Atomic(9)
        let spool = try await place.open {
            Timestamp(milliseconds: Int64(hours.subtract(1, ordering: .relaxed).newValue) * 3_600_000)
        }
        for number in 0..<5 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        #expect(spool.figures.oldestAt == Timestamp(milliseconds: 4 * 3_600_000))
        let files = await spool.files()
        // The files, too, bear the times of a clock that goes back.
        for (index, file) in files.enumerated() {
            let time = Date(timeIntervalSince1970: Double(1_000_000 - index * 3_600))
            try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: place.path(file))
        }
        let again = await spool.files()
        #expect(await spool.read(again).map(\.webhook) == (0..<5).map { Self.webhook($0) })
        #expect(spool.figures.oldestAt == Timestamp(milliseconds: (1_000_000 - 4 * 3_600) * 1_000))
        #expect(await spool.remove(again))
        #expect(spool.figures == SpoolFigures())
        await spool.close()
    }

    @Test("A directory that cannot be made is an error that names it")
    func noDirectory() async throws {
        do {
            _ = try await Spool.open(
                directory: "/proc/spool", bytesMax: 1, now: { Timestamp(milliseconds: 0) }, observe: { _ in })
            Issue.record("it was opened")
        } catch {
            #expect("\(error)".contains("/proc/spool"))
        }
        #expect(try SpoolFile.all(in: "/tmp/no-such-spool").isNothing)
    }
}
