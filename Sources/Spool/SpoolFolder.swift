internal import Linux
internal import Synchronization

/// The folder of one daemon, locked by this process: whoever has the lock is the only one that writes or removes files
/// there. A file is written in `tmp` and renamed, so that a name stands for a whole file.
final class SpoolFolder: Sendable {
    private static let temporary = "tmp"
    private static let nameDigits = 16
    private static let attemptsMax = 8

    let name: String
    private let directory: String
    private let lock: FolderLock
    /// The number of the newest file, be it set aside: no name is given twice.
    private let newest: Mutex<UInt64>

    private var path: String { directory + "/" + name }

    private init(_ name: String, in directory: String, _ lock: FolderLock, newest: UInt64) {
        self.name = name
        self.directory = directory
        self.lock = lock
        self.newest = Mutex(newest)
    }

    static func isName(_ text: String) -> Bool {
        text.utf8.count == nameDigits && text.allSatisfy { $0.isASCII && $0.isHexDigit }
    }

    /// Makes a folder that no daemon has.
    static func make(in directory: String) throws(DurableFile.Failure) -> SpoolFolder {
        var path = directory
        // Another daemon that starts may find the new folder before it is locked, and adopt it.
        for _ in 0..<attemptsMax {
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            let name = String(repeating: "0", count: nameDigits - digits.utf8.count) + digits
            path = directory + "/" + name
            try DurableFile.makeFolder(path)
            do throws(DurableFile.Failure) {
                if let taken = try take(name, in: directory) { return taken.folder }
            } catch {
                // It is tried again, and each attempt would leave a folder. Nobody else has one that cannot be locked.
                if error.cannotLock {
                    try? DurableFile.remove(path + "/" + FolderLock.fileName)
                    try? DurableFile.removeFolder(path)
                }
                throw error
            }
        }
        throw DurableFile.Failure.busy(path)
    }

    /// Takes a folder and removes what its last daemon had not finished: it answered none of that.
    /// - Returns: the folder and what waits in it; nil: another process has it.
    static func take(
        _ name: String, in directory: String
    ) throws(DurableFile.Failure) -> (folder: SpoolFolder, files: [SpoolFile])? {
        let path = directory + "/" + name
        guard let lock = try FolderLock.take(in: path) else { return nil }
        let unfinished = path + "/" + temporary
        try DurableFile.makeFolder(unfinished)
        // One that cannot be removed takes room, and nothing else.
        for file in try DurableFile.files(of: unfinished) { try? DurableFile.remove(unfinished + "/" + file.name) }
        let files = try SpoolFile.of(folder: name, in: directory)
        let newest = max(SpoolName.newest(of: files.map(\.name)), SpoolFile.newestDamaged(of: name, in: directory))
        return (SpoolFolder(name, in: directory, lock, newest: newest), files)
    }

    /// Writes one file; it is durable once the folder is synced.
    func write(_ bytes: [UInt8], of source: String) throws(DurableFile.Failure) -> SpoolName {
        var given = nextName(of: source)
        let unfinished = path + "/" + Self.temporary + "/" + given.text
        try DurableFile.write(bytes, to: unfinished)
        var attempts = 0
        while true {
            do throws(DurableFile.Failure) {
                try DurableFile.move(unfinished, toUnused: path + "/" + given.text)
                return given
            } catch {
                attempts += 1
                guard error.isTaken, attempts < Self.attemptsMax else {
                    try? DurableFile.remove(unfinished)
                    throw error
                }
            }
            // Somebody has copied a file there since the last listing.
            passOver((try? SpoolFile.of(folder: name, in: directory)) ?? [])
            given = nextName(of: source)
        }
    }

    private func nextName(of source: String) -> SpoolName {
        let number = newest.withLock { newest in
            newest += 1
            return newest
        }
        return SpoolName(number: number, source: source)
    }

    /// The number of the newest file that was begun.
    var newestNumber: UInt64 { newest.withLock { $0 } }

    /// Files that are there, be they copied by somebody: no new one takes their numbers.
    func passOver(_ files: [SpoolFile]) {
        let number = SpoolName.newest(of: files.map(\.name))
        newest.withLock { $0 = max($0, number) }
    }

    func sync() throws(DurableFile.Failure) { try DurableFile.sync(folder: path) }

    func remove(_ name: SpoolName) throws(DurableFile.Failure) { try DurableFile.remove(path + "/" + name.text) }

    /// Removes the folder, which is empty. The lock goes last, with this object.
    func discard() throws(DurableFile.Failure) {
        try DurableFile.removeFolder(path + "/" + Self.temporary)
        try DurableFile.remove(path + "/" + FolderLock.fileName)
        try DurableFile.removeFolder(path)
    }
}
