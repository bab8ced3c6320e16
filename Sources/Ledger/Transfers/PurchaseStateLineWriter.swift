import Vocabulary

/// Writes the lines of `PurchaseState.bytes`.
struct PurchaseStateLineWriter {
    private(set) var bytes: [UInt8] = []

    init() { bytes.reserveCapacity(256) }

    /// Begins a line with a word that needs no escape.
    mutating func begin(_ word: StaticString) { append(word) }

    mutating func end() { bytes.append(UInt8(ascii: "\n")) }

    /// Adds a field: a word that needs no escape.
    mutating func field(_ word: StaticString) {
        bytes.append(UInt8(ascii: "\t"))
        append(word)
    }

    mutating func field(_ number: some BinaryInteger) {
        bytes.append(UInt8(ascii: "\t"))
        bytes.append(contentsOf: String(number).utf8)
    }

    /// Adds a field of milliseconds, separated by commas.
    mutating func field(_ times: [Timestamp]) {
        bytes.append(UInt8(ascii: "\t"))
        for (index, time) in times.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes.append(contentsOf: String(time.milliseconds).utf8)
        }
    }

    mutating func field(_ holder: Holder) {
        bytes.append(UInt8(ascii: "\t"))
        escape(holder.storageKey)
    }

    private mutating func append(_ word: StaticString) {
        word.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    private mutating func escape(_ text: String) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): bytes.append(contentsOf: [byte, byte])
            case UInt8(ascii: "\t"): bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "t")])
            case UInt8(ascii: "\n"): bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "n")])
            case UInt8(ascii: "\r"): bytes.append(contentsOf: [UInt8(ascii: "\\"), UInt8(ascii: "r")])
            default: bytes.append(byte)
            }
        }
    }
}
