import Linux
import Synchronization
import Vocabulary

/// Looks at the private cluster's disk now and then, on a thread of its own: a file system that hangs must hold up
/// neither the watchdog nor a scrape.
final class DiskWatcher: Sendable {
    private static let interval: Duration = .seconds(5)
    private static let timeout: Duration = .seconds(2)

    /// nil: `[database] url` names the database, whose disk cannot be seen from here.
    private let directory: String?
    private let found = Mutex<DiskSpace?>(nil)
    /// A look that has not ended yet: another one would leave another thread that hangs.
    private let isLooking = Mutex(false)

    init(directory: String?) { self.directory = directory }

    /// As it was at the last look.
    var latest: DiskSpace? { found.withLock { $0 } }

    /// Until it is cancelled. While the disk does not answer, nothing is known of it.
    func run(_ observe: @escaping Observer) async {
        guard let directory else { return }
        var watch = DiskWatch()
        var isKnown = true
        repeat {
            let space = await look(at: directory)
            if space == nil, isKnown {
                observe(
                    .warning(
                        "the disk of \(directory) does not answer within \(Self.timeout): how full it is is not known "
                            + "until it does"))
            }
            isKnown = space != nil
            found.withLock { $0 = space ?? nil }
            if let space = space ?? nil, watch.look(space) { observe(.warning(space.lowText)) }
        } while (try? await Task.sleep(for: Self.interval)) != nil
    }

    /// - Returns: nil: it hangs, or the look before does; nil inside: there is nothing to see.
    private func look(at directory: String) async -> DiskSpace?? {
        if isLooking.withLock({ $0 }) { return nil }
        return await TimeLimit.answer(within: Self.timeout) { [self] give in
            isLooking.withLock { $0 = true }
            @Sendable func end(_ space: DiskSpace?) {
                isLooking.withLock { $0 = false }
                give(space)
            }
            do { try DetachedThread.start { end(DiskSpace.of(path: directory)) } } catch { end(nil) }
        }
    }
}
