import Vocabulary

/// Bodies as a broken sender, a broken proxy or an attacker might make them of readable ones.
struct Mutations {
    private let bodies: [[UInt8]]
    private var random: SeededGenerator

    private static let fragments = [
        "\"", "\\", "{", "}", "[", "]", ",", ":", "null", "\"\"", "9", "-", "e5", "\\ud800", "é", "\0", "[[[[", "true",
        "[]", "{}", "99999999999999999999",
    ]

    init(of bodies: [String], seed: UInt64) {
        self.bodies = bodies.map { Array($0.utf8) }
        random = SeededGenerator(seed: seed)
    }

    /// One to four changes: a byte, a fragment put in or put in place of a value, a piece taken out or doubled.
    mutating func next() -> [UInt8] {
        var bytes = bodies[Int.random(in: bodies.indices, using: &random)]
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let at = Int.random(in: 0..<bytes.count, using: &random)
            let fragment = Self.fragments[Int.random(in: Self.fragments.indices, using: &random)].utf8
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes.insert(contentsOf: fragment, at: at)
            case 2: bytes.removeSubrange(at..<min(bytes.count - 1, at + 12))
            case 3: bytes.insert(contentsOf: bytes[..<min(bytes.count, 40)], at: at)
            default: replaceValue(after: at, by: fragment, in: &bytes)
            }
        }
        return bytes
    }

    /// Leaves the text well-formed more often than not: what follows a colon, up to the next comma.
    private func replaceValue(after start: Int, by fragment: String.UTF8View, in bytes: inout [UInt8]) {
        guard let colon = bytes[start...].firstIndex(of: UInt8(ascii: ":")),
            let end = bytes[colon...].firstIndex(where: { $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "}") })
        else { return }
        bytes.replaceSubrange((colon + 1)..<end, with: fragment)
    }
}
