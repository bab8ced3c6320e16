import Linux
import Synchronization
import Vocabulary

/// Looks at the private cluster's disk now and then, on a thread of its own: a file system that hangs must hold up
/// neither the watchdog nor a scrape.
final class DiskWatching: Sendable {
    private static let interval: Duration = .seconds(5)
    private static let patience: Duration = .seconds(2)

    /// nil: the database is an own one, whose disk cannot be seen from here.
    private let directory: String?
    private let found = Mutex<DiskSpace?>(nil)

    init(directory: String?) { self.directory = directory }

    /// As it was at the last look.
    var latest: DiskSpace? { found.withLock { $0 } }

    /// Until it is cancelled, or the disk hangs.
    func run(_ observe: @escaping Observer) async {
        guard let directory else { return }
        var watch = DiskWatch()
        repeat {
            let space = await Patience.answer(within: Self.patience) { give in
                do { try DetachedThread.start { give(DiskSpace.of(path: directory)) } } catch { give(nil) }
            }
            // Each further look would leave another thread that hangs.
            guard let space else { return found.withLock { $0 = nil } }
            found.withLock { $0 = space }
            if let space, watch.look(space) { observe(.warning(space.lowText)) }
        } while (try? await Task.sleep(for: Self.interval)) != nil
    }
}
