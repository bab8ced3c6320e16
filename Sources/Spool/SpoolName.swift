/// The name of a file in the spool: a number that rises with each file of its folder, and the source. So a listing says
/// what waits, and for whom, without opening a file.
package struct SpoolName: Sendable, Hashable, Comparable {
    package let number: UInt64
    package let source: String

    package init(number: UInt64, source: String) {
        self.number = number
        self.source = source
    }

    private static let digits = 16
    /// What so many digits can say: beyond it names in order would not be files in order.
    private static let numberMax: UInt64 = 9_999_999_999_999_999
    /// A foreign file with a greater number does not raise those of the files that come: they never use up the digits.
    private static let precedingMax = numberMax / 2

    /// The number behind which those of new files go on, beside files of these names; 0: there is none.
    static func newest(of names: [SpoolName]) -> UInt64 {
        names.lazy.map(\.number).filter { $0 <= precedingMax }.max() ?? 0
    }

    /// Names in order are files in order.
    package var text: String {
        let number = String(number)
        return String(repeating: "0", count: max(0, Self.digits - number.utf8.count)) + number + "." + source
    }

    /// nil: it is no file of ours.
    package init?(_ text: String) {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let number = UInt64(parts[0]), number <= Self.numberMax, !parts[1].isEmpty
        else { return nil }
        self.init(number: number, source: String(parts[1]))
        guard self.text == text else { return nil }
    }

    package static func < (left: SpoolName, right: SpoolName) -> Bool {
        (left.number, left.source) < (right.number, right.source)
    }
}
