internal import CSystemd
internal import Glibc

/// Whether a descriptor leads to the journal.
package enum JournalStream {
    /// Compares a descriptor with `$JOURNAL_STREAM` (systemd.exec(5)): device and inode of the journal's stream, in
    /// decimal, with a colon between. The variable alone is not enough, because a child may have been given another
    /// standard error.
    package static func isJournal(descriptor: Int32) -> Bool {
        guard let value = getenv("JOURNAL_STREAM") else { return false }
        return isJournal(descriptor: descriptor, journalStream: String(cString: value))
    }

    static func isJournal(descriptor: Int32, journalStream: String) -> Bool {
        let parts = journalStream.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let device = UInt64(parts[0]), let inode = UInt64(parts[1]) else { return false }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        return UInt64(status.st_dev) == device && UInt64(status.st_ino) == inode
    }
}

/// One journal entry in one buffer, ready for sendmsg(2): fields of the form `NAME=value`, with any text as value.
package struct JournalRecord: Sendable {
    package private(set) var bytes: [UInt8] = []
    /// Where each field ends in `bytes`.
    private(set) var ends: [Int] = []

    package init() { bytes.reserveCapacity(768) }

    /// `name`: upper-case letters, digits and underscores, not beginning with an underscore
    /// (systemd.journal-fields(7)).
    package mutating func append(_ name: String, _ value: some StringProtocol) {
        bytes.append(contentsOf: name.utf8)
        bytes.append(UInt8(ascii: "="))
        bytes.append(contentsOf: value.utf8)
        ends.append(bytes.count)
    }
}

package enum Journal {
    /// Sends one entry by the native protocol. It may wait for journald, so only the writer's thread calls it.
    /// True: sent, or no journal runs here at all (sd_journal_sendv(3) does not distinguish the two).
    package static func send(_ record: JournalRecord) -> Bool {
        record.bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else { return true }
            var start = 0
            let vectors = record.ends.map { end in
                defer { start = end }
                // sendmsg(2) only reads through iov_base, but its C type is a mutable pointer.
                return iovec(iov_base: UnsafeMutableRawPointer(mutating: base + start), iov_len: end - start)
            }
            return sd_journal_sendv(vectors, Int32(vectors.count)) == 0
        }
    }
}

package enum LineOutput {
    /// Writes all of `bytes` to a descriptor, waiting as long as that takes, even if the descriptor is non-blocking.
    /// False once the other end has closed it or writing fails otherwise. Only the writer's thread calls it.
    package static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let written = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if errno == EAGAIN {
                    var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = poll(&waiting, 1, -1)
                } else if errno != EINTR {
                    return false
                }
            }
            return true
        }
    }
}
