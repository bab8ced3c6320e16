package import Linux
package import Vocabulary

/// A webhook that waits, by its file alone.
package struct SpoolFile: Sendable, Hashable {
    /// The folder of a daemon, in the directory of the spool.
    package let folder: String
    package let name: SpoolName
    package let sizeBytes: Int
    package let writtenAt: Timestamp

    package init(folder: String, name: SpoolName, sizeBytes: Int, writtenAt: Timestamp) {
        self.folder = folder
        self.name = name
        self.sizeBytes = sizeBytes
        self.writtenAt = writtenAt
    }

    /// As commands show it: below the directory of the spool.
    package var relativePath: String { folder + "/" + name.text }

    /// Bytes of a file that can be read at all: the largest body that any configuration allows, and the text before it.
    package static let bytesMax = Limits.recordQueueBytesMax + SpooledWebhook.textBytesMax

    /// What waits in a spool, whoever has its folders.
    package struct Waiting: Sendable {
        /// In order.
        package fileprivate(set) var files: [SpoolFile] = []
        /// Folders that this user cannot look into, by name: something may wait there, too.
        package fileprivate(set) var unreadable: [String] = []

        package var isNothing: Bool { files.isEmpty && unreadable.isEmpty }
    }

    /// All that wait in a spool: for commands, which lock nothing. Blocks.
    /// - Returns: nothing where there is no spool.
    package static func all(in directory: String) throws(DurableFile.Failure) -> Waiting {
        var waiting = Waiting()
        let names: [String]
        do throws(DurableFile.Failure) {
            names = try folders(in: directory)
        } catch {
            if error.isMissing { return waiting }
            throw error
        }
        for folder in names {
            do throws(DurableFile.Failure) {
                waiting.files += try of(folder: folder, in: directory)
            } catch {
                // A folder that is gone by now was emptied by its daemon.
                if !error.isMissing { waiting.unreadable.append(folder) }
            }
        }
        return waiting
    }

    /// Whether a process has a folder of a spool: it adopts those that no other has. Blocks.
    package static func isInUse(_ directory: String) -> Bool {
        ((try? folders(in: directory)) ?? []).contains { FolderLock.isHeld(in: directory + "/" + $0) }
    }

    /// The names of files that were set aside as damaged. Blocks.
    package static func damaged(in directory: String) -> [String] {
        let files = try? DurableFile.files(of: directory + "/" + damagedFolder)
        return (files ?? []).map { damagedFolder + "/" + $0.name }.sorted()
    }

    static let damagedFolder = "damaged"

    /// Where a damaged file is moved to.
    var damagedPath: String { Self.damagedFolder + "/" + folder + "-" + name.text }

    /// As `SpoolName.newest`, of the damaged files of one folder.
    static func newestDamaged(of folder: String, in directory: String) -> UInt64 {
        let prefix = damagedFolder + "/" + folder + "-"
        let names = damaged(in: directory).filter { $0.hasPrefix(prefix) }
        return SpoolName.newest(of: names.compactMap { SpoolName(String($0.dropFirst(prefix.count))) })
    }

    /// The folders of daemons, in no order that means anything.
    static func folders(in directory: String) throws(DurableFile.Failure) -> [String] {
        try DurableFile.folders(of: directory).filter { SpoolFolder.isName($0) }.sorted()
    }

    /// Those of one folder, in order.
    static func of(folder: String, in directory: String) throws(DurableFile.Failure) -> [SpoolFile] {
        try DurableFile.files(of: directory + "/" + folder).compactMap { entry in
            SpoolName(entry.name).map { name in
                SpoolFile(
                    folder: folder, name: name, sizeBytes: entry.sizeBytes,
                    writtenAt: Timestamp(milliseconds: entry.writtenAtMilliseconds))
            }
        }.sorted { $0.name < $1.name }
    }
}
