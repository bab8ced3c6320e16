import Foundation
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

        func open(max bytesMax: Int = 1 << 30) async throws -> Spool {
            try await Spool.open(
                directory: directory, bytesMax: bytesMax, now: { Timestamp(milliseconds: 1_000) }, observe: observe)
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
        for _ in 0..<1_200 {
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
        await second.look()
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

    @Test("A file that cannot be read is set aside and reported; the others go on")
    func damaged() async throws {
        let place = try Place()
        let spool = try await place.open()
        for number in 0..<3 { #expect(await write(Self.webhook(number), to: spool) == .written) }
        let files = await spool.files()
        let path = place.directory + "/" + files[1].relativePath
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: URL(fileURLWithPath: path))
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
        #expect(try SpoolFile.all(in: place.directory).count == 2)
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
        #expect(try SpoolFile.all(in: "/tmp/no-such-spool").isEmpty)
    }
}
