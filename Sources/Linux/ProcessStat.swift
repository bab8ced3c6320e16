internal import Glibc

/// One line of /proc/PID/stat (proc(5)).
package struct ProcessStat: Sendable, Equatable {
    package let name: String
    package let state: Character
    /// From the third on: the state.
    private let fields: [String]

    /// nil: there is no such process, or it is another user's.
    /// - Parameter process: a pid, or `self`.
    package init?(of process: String) {
        let descriptor = open("/proc/\(process)/stat", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // One page holds the line: 52 numbers and a name of 64 bytes at most.
        self.init(
            parsing: String(
                unsafeUninitializedCapacity: 4_096,
                initializingUTF8With: { buffer in max(0, read(descriptor, buffer.baseAddress, buffer.count)) }))
    }

    /// The name is in parentheses and may hold any character: the last one closes it.
    package init?(parsing text: String) {
        guard let open = text.firstIndex(of: "("), let close = text.lastIndex(of: ")"), open < close else { return nil }
        fields = text[text.index(after: close)...].split(whereSeparator: \.isWhitespace).map(String.init)
        guard let state = fields.first?.first else { return nil }
        name = String(text[text.index(after: open)..<close])
        self.state = state
    }

    /// A field by its number in proc(5), from 4 on; nil: the line has no such number.
    package func number<Number: FixedWidthInteger>(_ field: Int) -> Number? {
        fields.indices.contains(field - 3) ? Number(fields[field - 3]) : nil
    }

    /// Zombie or dead: it holds nothing any more, and only waits for its parent to reap it.
    package var isDead: Bool { "ZXx".contains(state) }
}
