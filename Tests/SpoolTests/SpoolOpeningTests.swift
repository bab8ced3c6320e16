import Foundation
import Synchronization
import Testing
import Vocabulary

@testable import Spool

/// Oracle: the directory, which cannot be made while a file is in its place.
@Suite("A spool that cannot be opened at the start")
struct SpoolOpeningTests {
    private final class Place: Sendable {
        let directory = NSTemporaryDirectory() + "/phaway-\(UUID().uuidString)"
        private let seen = Mutex<[String]>([])
        private let begun = Mutex(0)

        init() throws { try Data().write(to: URL(fileURLWithPath: directory)) }

        deinit { try? FileManager.default.removeItem(atPath: directory) }

        func clear() throws { try FileManager.default.removeItem(atPath: directory) }

        var observe: Observer {
            { observation in
                if case .warning(let text) = observation { self.seen.withLock { $0.append(text) } }
            }
        }
        /// As each attempt fails.
        var problem: String { "cannot make \(directory): File exists" }
        var warnings: [String] { seen.withLock { $0 } }
        /// Attempts that were begun.
        var attempts: Int { begun.withLock { $0 } }

        func opening(every pause: Duration = .milliseconds(5)) -> SpoolOpening {
            let opening = unneeded(every: pause)
            opening.tryAgain(after: problem)
            return opening
        }

        func unneeded(every pause: Duration = .milliseconds(5)) -> SpoolOpening {
            SpoolOpening(
                in: directory, every: pause,
                open: {
                    self.begun.withLock { $0 += 1 }
                    return try await Spool.open(
                        directory: self.directory, bytesMax: 1 << 30, now: { Timestamp(milliseconds: 1_000) },
                        observe: self.observe)
                }, observe: observe)
        }
    }

    /// Waits for a condition that comes by itself.
    private func comes(_ condition: () -> Bool) async -> Bool {
        for _ in 0..<6_000 {
            if condition() { return true }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return false
    }

    private func write(to spool: Spool) async -> Spool.Answer {
        await withCheckedContinuation { continuation in
            let webhook = SpooledWebhook(
                source: "shop", receivedAt: Timestamp(milliseconds: 1), headers: [], body: Array("{}".utf8))
            spool.write(webhook, because: "a test") { continuation.resume(returning: $0) }
        }
    }

    @Test("It is tried again until it can be opened, which the journal hears once")
    func opened() async throws {
        let place = try Place()
        let opening = place.opening()
        #expect(opening.current == nil && opening.problem == place.problem)
        let waiting = Task { await opening.opened() }
        // The second attempt begins behind the first.
        #expect(await comes { place.attempts >= 2 })
        #expect(opening.current == nil && opening.problem?.contains(place.directory) == true)
        #expect(place.warnings.isEmpty)
        try place.clear()
        let spool = try #require(await waiting.value)
        #expect(opening.current === spool && opening.problem == nil)
        let again = await opening.opened()
        #expect(again === spool)
        #expect(place.warnings.count == 1 && place.warnings.first?.contains("opened now") == true)
        #expect(await write(to: spool) == .written)
        await opening.close()
        let afterwards = await opening.opened()
        #expect(opening.current == nil && opening.problem == nil && afterwards == nil)
    }

    @Test("What a reload opens is there at once for who waits, however long the pauses are")
    func needed() async throws {
        let place = try Place()
        try place.clear()
        let opening = place.unneeded(every: .seconds(100_000))
        let waiting = Task { await opening.opened() }
        try await Task.sleep(for: .milliseconds(200))
        try await opening.open()
        #expect(await waiting.value != nil)
        await opening.close()
    }

    @Test("Closed or given up while it is away, it is not waited for")
    func closed() async throws {
        let place = try Place()
        let opening = place.opening()
        let waiting = Task { await opening.opened() }
        #expect(await comes { place.attempts >= 1 })
        await opening.close()
        // An attempt may be under way.
        try place.clear()
        let spool = await waiting.value
        #expect(spool == nil && opening.current == nil && place.warnings.isEmpty)

        let patient = place.opening(every: .seconds(86_400))
        let givenUp = Task { await patient.opened() }
        givenUp.cancel()
        let none = await givenUp.value
        #expect(none == nil && patient.problem == place.problem)
    }

    @Test("Unneeded, it is opened when it is asked for; what fails leaves it so; who waits for it gets it")
    func unneeded() async throws {
        let place = try Place()
        let opening = place.unneeded()
        #expect(opening.current == nil && opening.problem == nil)
        await #expect(throws: (any Error).self) { try await opening.open() }
        #expect(opening.problem == nil && place.attempts == 1)
        let waiting = Task { await opening.opened() }
        try place.clear()
        try await opening.open()
        try await opening.open()
        let spool = try #require(opening.current)
        #expect(place.attempts == 2)
        let got = await waiting.value
        #expect(got === spool && place.warnings.isEmpty)
        #expect(await write(to: spool) == .written)
        await opening.close()
        #expect(opening.current == nil)
    }

    @Test("One whose directory does not pass is not used, and why is said once; nothing is said of what waits there")
    func foreign() async throws {
        struct Foreign: Error, CustomStringConvertible { let description = "it is another ledger's" }
        let place = try Place()
        let opening = place.opening()
        let isForeign = Replaceable(true)
        try opening.admit { _ in if isForeign.current { throw Foreign() } }
        try place.clear()
        let waiting = Task { await opening.opened() }
        #expect(await comes { place.warnings.contains { $0.contains("another ledger's") } })
        #expect(opening.current == nil && place.attempts == 0)
        isForeign.replace(false)
        let spool = await waiting.value
        #expect(spool != nil && place.warnings.count == 2, "\(place.warnings)")
        await opening.close()
    }

    @Test("Closed while an attempt is under way, it closes the spool that this one opens")
    func closedMeanwhile() async throws {
        let place = try Place()
        try place.clear()
        let itself = Replaceable<SpoolOpening?>(nil)
        let late = Replaceable<Spool?>(nil)
        let opening = SpoolOpening(
            in: place.directory, every: .milliseconds(5),
            open: {
                let spool = try await Spool.open(
                    directory: place.directory, bytesMax: 1 << 30, now: { Timestamp(milliseconds: 1_000) },
                    observe: place.observe)
                late.replace(spool)
                await itself.current?.close()
                return spool
            }, observe: place.observe)
        itself.replace(opening)
        opening.tryAgain(after: "a file is there")
        let none = await opening.opened()
        #expect(none == nil && opening.current == nil && place.warnings.isEmpty)
        let spool = try #require(late.current)
        #expect(await write(to: spool) == .refused(reason: "the daemon stops"))
        itself.replace(nil)
    }
}
