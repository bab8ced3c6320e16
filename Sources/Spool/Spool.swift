internal import Linux
internal import Synchronization
package import Vocabulary

/// Keeps webhooks on this machine's disk until the ledger takes them.
///
///     write ─▶ pending (bounded) ─writer thread─▶ tmp/FILE, fsync ─▶ rename ─▶ fsync of the folder ─▶ answered
///     files ─▶ read ─▶ (recorded, after COMMIT) ─▶ remove ─reader thread─▶ unlink, fsync of the folder
///
/// The directory has a folder for each daemon, which is locked; one whose daemon is gone is adopted, so what a crash
/// left is recorded by the next daemon that comes. The files own the truth: memory has counts alone. A file that was
/// recorded and not removed is recorded again, as a duplicate.
///
/// What can fail:
/// - the disk is full, or refuses: the webhook is answered 503, as without a spool;
/// - the disk is slow: what waits to be written is bounded, further webhooks are answered 503;
/// - the disk hangs: what is being written is answered 503 by the HTTP server, when its time is over;
/// - a file is damaged: it is moved to the folder `damaged` and reported;
/// - a file or a folder cannot be read now, or not by this user or this version: it is reported, and waits.
package final class Spool: Sendable {
    package enum Answer: Sendable, Hashable {
        /// The disk has it.
        case written
        case refused(reason: String)
    }

    private struct Pending: Sendable {
        let webhook: SpooledWebhook
        /// Reserved of the disk.
        let bytes: Int
        let cause: String
        let completion: @Sendable (Answer) -> Void
    }

    private struct State {
        var tally: SpoolTally
        var pending: [Pending] = []
        var isWriting = false
        var isClosed = false
        /// Those of daemons that are gone.
        var adopted: [SpoolFolder] = []
        /// The names of those that were empty at the last look.
        var emptyFolders: Set<String> = []
        /// The number of the newest file of the own folder that is counted: those behind it are not answered yet.
        var countedNumber: UInt64 = 0
        var reportedAt: [Problem: ContinuousClock.Instant] = [:]
        /// Folders that could not be taken, which is reported once.
        var foldersReported: Set<String> = []
    }

    /// What may come many times a second, and is reported once in `Limits.spoolReportInterval`.
    private enum Problem: Hashable {
        case refusal, unreadableFile, lastingFile
    }

    package let directory: String
    private let own: SpoolFolder
    private let writer: WorkThread
    private let reader: WorkThread
    private let now: @Sendable () -> Timestamp
    private let observe: Observer
    private let state: Mutex<State>
    /// Yields when something waits that did not wait before. For one reader.
    package let arrivals: AsyncStream<Void>
    private let arrive: AsyncStream<Void>.Continuation

    /// Opens a spool, which is made where it is not there yet, and adopts what daemons that are gone have left.
    /// - Parameter now: this machine's wall clock.
    package static func open(
        directory: String, bytesMax: Int, now: @escaping @Sendable () -> Timestamp, observe: @escaping Observer
    ) async throws -> Spool {
        let (writer, reader) = (try WorkThread.start(), try WorkThread.start())
        let opened = await reader.value {
            Result {
                try Spool(
                    directory: directory, bytesMax: bytesMax, writer: writer, reader: reader, now: now,
                    observe: observe)
            }
        }
        do {
            guard let opened else { throw CancellationError() }
            return try opened.get()
        } catch {
            writer.stop()
            reader.stop()
            throw error
        }
    }

    private init(
        directory: String, bytesMax: Int, writer: WorkThread, reader: WorkThread,
        now: @escaping @Sendable () -> Timestamp, observe: @escaping Observer
    ) throws(DurableFile.Failure) {
        self.directory = directory
        self.writer = writer
        self.reader = reader
        self.now = now
        self.observe = observe
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        arrivals = stream
        arrive = continuation
        try DurableFile.makeFolder(directory)
        var taken: (folder: SpoolFolder, files: [SpoolFile])?
        // What cannot be taken is reported by `adoptNow`.
        for name in try SpoolFile.folders(in: directory) where taken == nil {
            taken = try? SpoolFolder.take(name, in: directory)
        }
        own = if let taken { taken.folder } else { try SpoolFolder.make(in: directory) }
        var tally = SpoolTally(bytesMax: bytesMax)
        tally.disk = DiskSpace.of(path: directory)
        state = Mutex(State(tally: tally, countedNumber: own.newestNumber))
        if let taken { found(taken.files, in: own) }
        adoptNow()
    }

    // MARK: What waits

    package var figures: SpoolFigures { state.withLock { $0.tally.figures } }

    /// Whether a webhook that came now would be taken, as of the last look at the disk.
    package var hasRoom: Bool { state.withLock { !$0.isClosed && $0.tally.hasRoom } }

    /// Looks at the disk, adopts what daemons have left that are gone, and finds what somebody has copied here. To be
    /// called now and then.
    package func look() async {
        _ = await reader.value { [self] in
            let disk = DiskSpace.of(path: directory)
            state.withLock { state in
                state.tally.disk = disk
                // What failed may succeed now: the next webhook tries it.
                state.tally.failure = nil
            }
            adoptNow()
            // Otherwise whoever records what waits lists it all the time.
            if figures.webhooks <= 0, !listNow().isEmpty { arrive.yield() }
        }
    }

    /// Looks every 30 s (`Limits.spoolAdoptionInterval`) until it is cancelled.
    package func keepLooking() async {
        while (try? await Task.sleep(for: Limits.spoolAdoptionInterval)) != nil { await look() }
    }

    private func found(_ files: [SpoolFile], in folder: SpoolFolder) {
        guard !files.isEmpty else { return }
        state.withLock { state in
            for file in files { _ = state.tally.add(bytes: SpoolTally.blocks(of: file.sizeBytes), at: file.writtenAt) }
        }
        observe(.spoolAdopted(folder: folder.name, count: files.count))
        arrive.yield()
    }

    /// Gone: somebody has removed it by hand.
    private func isEmptyOrGone(_ folder: SpoolFolder) -> Bool {
        do throws(DurableFile.Failure) {
            return try SpoolFile.of(folder: folder.name, in: directory).isEmpty
        } catch {
            return error.isMissing
        }
    }

    private func adoptNow() {
        let (adopted, emptyBefore) = state.withLock { ($0.adopted, $0.emptyFolders) }
        var empty: Set<String> = []
        for folder in adopted where isEmptyOrGone(folder) {
            // Not at once: somebody may be copying files there.
            guard emptyBefore.contains(folder.name) else {
                empty.insert(folder.name)
                continue
            }
            try? folder.discard()
            state.withLock { $0.adopted.removeAll { $0 === folder } }
        }
        let held = Set([own.name] + adopted.map(\.name))
        // What cannot be listed or taken is tried again at the next look.
        for name in (try? SpoolFile.folders(in: directory)) ?? [] where !held.contains(name) {
            do throws(DurableFile.Failure) {
                guard let (folder, files) = try SpoolFolder.take(name, in: directory) else { continue }
                state.withLock { $0.adopted.append(folder) }
                if files.isEmpty { empty.insert(name) }
                found(files, in: folder)
            } catch {
                guard state.withLock({ $0.foldersReported.insert(name).inserted }) else { continue }
                observe(.warning("what waits in folder \(name) of the spool is not recorded until it can be: \(error)"))
            }
        }
        state.withLock { $0.emptyFolders = empty }
    }

    // MARK: Writing

    /// Writes a webhook, which is authentic; `completion` is called once, from any thread. Waits for nothing.
    /// - Parameter cause: why the ledger does not take it, for the journal.
    package func write(
        _ webhook: SpooledWebhook, because cause: String, completion: @escaping @Sendable (Answer) -> Void
    ) {
        let bytes = SpoolTally.blocks(of: webhook.body.count + SpooledWebhook.textBytesMax)
        let (problem, mustStart) = state.withLock { state -> (String?, Bool) in
            let problem =
                state.isClosed
                ? "the daemon stops" : state.tally.problem(with: bytes) ?? state.tally.backlog(before: bytes)
            if let problem { return (problem, false) }
            state.tally.reserve(bytes)
            state.pending.append(Pending(webhook: webhook, bytes: bytes, cause: cause, completion: completion))
            defer { state.isWriting = true }
            return (nil, !state.isWriting)
        }
        if let problem { return refuse(problem, [completion]) }
        if mustStart { writer.post { [self] in writePending() } }
    }

    private func writePending() {
        while true {
            let group = state.withLock { state in
                let group = Array(state.pending.prefix(Limits.spoolGroupMax))
                state.pending.removeFirst(group.count)
                if group.isEmpty { state.isWriting = false }
                return group
            }
            if group.isEmpty { return }
            write(group)
        }
    }

    /// Writes a group behind one fsync of the folder.
    private func write(_ group: [Pending]) {
        let disk = DiskSpace.of(path: directory)
        let problem = state.withLock { state in
            state.tally.disk = disk
            return state.tally.problem(with: 0)
        }
        var written: [(pending: Pending, name: SpoolName, bytes: Int)] = []
        var failure: String?
        for pending in problem == nil ? group : [] {
            do throws(DurableFile.Failure) {
                let file = pending.webhook.file
                let name = try own.write(file, of: pending.webhook.source)
                written.append((pending, name, SpoolTally.blocks(of: file.count)))
            } catch {
                failure = "\(error)"
                break
            }
        }
        do throws(DurableFile.Failure) {
            if !written.isEmpty { try own.sync() }
        } catch {
            failure = "\(error)"
            // Nothing is known of them: they are answered 503, and what stays all the same is a duplicate later.
            for entry in written { try? own.remove(entry.name) }
            written = []
        }
        let time = now()
        let isFirst = state.withLock { state in
            for pending in group { state.tally.release(pending.bytes) }
            state.tally.failure = failure
            state.countedNumber = written.last?.name.number ?? state.countedNumber
            return written.map { state.tally.add(bytes: $0.bytes, at: time) }.contains(true)
        }
        if isFirst, let cause = written.first?.pending.cause { observe(.spoolingBegan(reason: cause)) }
        for entry in written { entry.pending.completion(.written) }
        if !written.isEmpty { arrive.yield() }
        if let reason = problem ?? failure { refuse(reason, group.dropFirst(written.count).map { $0.completion }) }
    }

    private func refuse(_ reason: String, _ completions: [@Sendable (Answer) -> Void]) {
        report(.refusal, reason)
        for completion in completions { completion(.refused(reason: reason)) }
    }

    private func isDue(_ problem: Problem) -> Bool {
        let time = ContinuousClock.Instant.now
        return state.withLock { state in
            if state.isClosed { return false }
            if let last = state.reportedAt[problem], time < last + Limits.spoolReportInterval { return false }
            state.reportedAt[problem] = time
            return true
        }
    }

    /// Takes no further webhooks, and waits until those that it has are written.
    package func close() async {
        state.withLock { $0.isClosed = true }
        arrive.finish()
        _ = await writer.value { [self] in writePending() }
        // Removes the empty folder that a command made beside a daemon's. Nobody waits for it: a disk that hangs must
        // not hold up a stop.
        if own.newestNumber == 0 { reader.post { [own] in try? own.discard() } }
        writer.stop()
        reader.stop()
    }

    // MARK: Recording

    /// All files that wait here, in order: those of daemons that are gone first. What cannot be listed now comes later.
    package func files() async -> [SpoolFile] { await reader.value { [self] in listNow() } ?? [] }

    private func listNow() -> [SpoolFile] {
        let (adopted, counted, added) = state.withLock { state in
            // Files behind those that are counted were copied there, unless something is being written.
            if !state.isWriting { state.countedNumber = own.newestNumber }
            return (state.adopted, state.countedNumber, state.tally.added)
        }
        var (files, isWhole) = ([SpoolFile](), true)
        func list(_ folder: SpoolFolder) -> [SpoolFile] {
            do throws(DurableFile.Failure) {
                return try SpoolFile.of(folder: folder.name, in: directory)
            } catch {
                isWhole = false
                report(.unreadableFile, "\(error)")
                return []
            }
        }
        for folder in adopted { files += list(folder) }
        let listed = list(own)
        // What is being written may go again, with its group.
        let newest = own.newestNumber
        files += listed.filter { $0.name.number <= counted || $0.name.number > newest }
        own.passOver(listed)
        if isWhole { state.withLock { $0.tally.found(files, addedBefore: added) } }
        return files
    }

    /// Reads files of these folders. Damaged ones are set aside and reported; what cannot be read now, or not by this
    /// version, stays.
    package func read(_ files: [SpoolFile]) async -> [(file: SpoolFile, webhook: SpooledWebhook)] {
        await reader.value { [self] in
            files.compactMap { file in readNow(file).map { (file: file, webhook: $0) } }
        } ?? []
    }

    private func readNow(_ file: SpoolFile) -> SpooledWebhook? {
        let path = directory + "/" + file.relativePath
        let bytes: [UInt8]
        do throws(DurableFile.Failure) {
            bytes = try DurableFile.read(path, bytesMax: SpoolFile.bytesMax)
        } catch {
            if error.isMissing {
                // Somebody has removed it by hand.
                leaves(file, isRecorded: false)
            } else if error.isDamage {
                setAside(file, "\(error)")
            } else {
                report(.unreadableFile, "\(error)")
            }
            return nil
        }
        do throws(SpooledWebhook.Damage) {
            return try SpooledWebhook(file: bytes)
        } catch {
            if error.isOtherForm { report(.unreadableFile, "\(path): \(error)") } else { setAside(file, "\(error)") }
            return nil
        }
    }

    private func report(_ problem: Problem, _ reason: String) {
        guard isDue(problem) else { return }
        switch problem {
        case .refusal: observe(.spoolRefused(reason: reason))
        case .unreadableFile:
            observe(.warning("webhooks wait in the spool that cannot be read now, and are tried again: \(reason)"))
        case .lastingFile:
            observe(.warning("what was recorded from the spool stays in it and is recorded again: \(reason)"))
        }
    }

    private func setAside(_ file: SpoolFile, _ reason: String) {
        let target = file.damagedPath
        do throws(DurableFile.Failure) {
            try DurableFile.makeFolder(directory + "/" + SpoolFile.damagedFolder)
            try DurableFile.move(directory + "/" + file.relativePath, to: directory + "/" + target)
            try DurableFile.sync(folder: directory + "/" + SpoolFile.damagedFolder)
            try DurableFile.sync(folder: directory + "/" + file.folder)
        } catch {
            return report(.unreadableFile, "\(file.relativePath): \(reason); \(error)")
        }
        leaves(file, isRecorded: false)
        observe(.spoolDamaged(file: directory + "/" + target, reason: reason))
    }

    /// Removes files whose webhooks the ledger has committed. One that stays holds up no other.
    /// - Returns: whether all are gone; otherwise they come again, as duplicates.
    package func remove(_ files: [SpoolFile]) async -> Bool {
        await reader.value { [self] in
            var failure: DurableFile.Failure?
            func attempt(_ work: () throws(DurableFile.Failure) -> Void) -> Bool {
                do throws(DurableFile.Failure) {
                    try work()
                    return true
                } catch {
                    failure = error
                    return false
                }
            }
            for file in files {
                let isGone = attempt { () throws(DurableFile.Failure) in
                    try DurableFile.remove(directory + "/" + file.relativePath)
                }
                if isGone { leaves(file, isRecorded: true) }
            }
            for folder in Set(files.map(\.folder)) {
                _ = attempt { () throws(DurableFile.Failure) in try DurableFile.sync(folder: directory + "/" + folder) }
            }
            if let failure { report(.lastingFile, "\(failure)") }
            return failure == nil
        } ?? false
    }

    private func leaves(_ file: SpoolFile, isRecorded: Bool) {
        let recorded = state.withLock { state in
            state.tally.remove(bytes: SpoolTally.blocks(of: file.sizeBytes), isRecorded: isRecorded)
        }
        if let recorded { observe(.spoolEmptied(count: recorded)) }
    }
}
