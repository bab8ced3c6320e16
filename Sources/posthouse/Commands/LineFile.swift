import Glibc
import Linux
import Vocabulary

/// Reads a file, or standard input for `-`, line by line. Lines end by LF; CR before it is a blank like others, and so
/// is a byte order mark before the first, which some editors and spreadsheets write.
final class LineFile {
    struct Line {
        /// Counted from 1.
        let number: Int
        /// Nil: it is longer than `Limits.importLineBytesMax`.
        let bytes: [UInt8]?
    }

    private static let chunkBytes = 256 << 10
    /// Of UTF-8.
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private let path: String
    fileprivate let descriptor: Int32
    private var buffer: [UInt8] = []
    /// Where the next line begins in `buffer`.
    private var start = 0
    private var number = 0
    private var isAtEnd = false
    /// Bytes read so far.
    private(set) var bytesRead = 0
    /// Of a regular file; otherwise 0.
    let bytesTotal: Int

    init(_ path: String) throws {
        self.path = path
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.unreadable(path) }
        var status = stat()
        let isRegular = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        bytesTotal = isRegular ? Int(status.st_size) : 0
    }

    deinit { if descriptor > STDIN_FILENO { close(descriptor) } }

    /// The next lines that are not blank, `count` at most; none: the file is at its end.
    func next(_ count: Int) throws -> [Line] {
        var lines: [Line] = []
        while lines.count < count, let line = try next() {
            if let bytes = line.bytes, bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { continue }
            lines.append(line)
        }
        return lines
    }

    private func next() throws -> Line? {
        var isTooLong = false
        while true {
            if let end = buffer[start...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { start = end + 1 }
                return line(upTo: end, isTooLong)
            }
            if isAtEnd {
                guard start < buffer.count || isTooLong else { return nil }
                defer { start = buffer.count }
                return line(upTo: buffer.count, isTooLong)
            }
            if buffer.count - start > Limits.importLineBytesMax {
                isTooLong = true
                start = buffer.count
            }
            try fill()
        }
    }

    private func line(upTo end: Int, _ isTooLong: Bool) -> Line {
        number += 1
        let isLong = isTooLong || end - start > Limits.importLineBytesMax
        if isLong { return Line(number: number, bytes: nil) }
        let line = buffer[start..<end]
        let isMarked = number == 1 && line.starts(with: Self.byteOrderMark)
        return Line(number: number, bytes: Array(isMarked ? line.dropFirst(Self.byteOrderMark.count) : line))
    }

    private func fill() throws {
        buffer.removeFirst(start)
        start = 0
        var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
        var count = 0
        repeat {
            count = chunk.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        } while count < 0 && errno == EINTR
        guard count >= 0 else { throw Self.unreadable(path) }
        isAtEnd = count == 0
        bytesRead += count
        buffer += chunk.prefix(count)
    }

    private static func unreadable(_ path: String) -> OperatorError {
        OperatorError("\(path) cannot be read: \(String(cString: strerror(errno)))")
    }
}

/// A file that a command writes lines to: of this user alone, because they name people.
final class PrivateFile {
    private let path: String
    private let descriptor: Int32

    /// Replaces what the file held.
    /// - Parameter input: what is read beside it, and must not be the same.
    init(_ path: String, besides input: LineFile) throws {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.unwritable(path) }
        var (own, other) = (stat(), stat())
        guard fstat(descriptor, &own) == 0 else { throw Self.unwritable(path) }
        // A terminal, a pipe or /dev/null has neither a length nor a mode of this command's.
        guard own.st_mode & S_IFMT == S_IFREG else { return }
        if fstat(input.descriptor, &other) == 0, own.st_dev == other.st_dev, own.st_ino == other.st_ino {
            throw OperatorError("\(path) is the file that is read: name another one")
        }
        guard fchmod(descriptor, 0o600) == 0, ftruncate(descriptor, 0) == 0 else { throw Self.unwritable(path) }
    }

    deinit { close(descriptor) }

    func write(_ bytes: [UInt8]) throws {
        guard DurableFile.writeAll(bytes, to: descriptor) else { throw Self.unwritable(path) }
    }

    private static func unwritable(_ path: String) -> OperatorError {
        OperatorError("\(path) cannot be written: \(String(cString: strerror(errno)))")
    }
}
