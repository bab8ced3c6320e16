import Vocabulary

/// The name of the member of a JSON object whose value begins at an index, also in JSON within a string.
///
/// An erasure asks it of a value that is digits only. Vendors write amounts, versions and counts as strings, too, and
/// one of them may have the digits of a person's id: a price of 7.99 is not user 799.
struct MemberName {
    private let bytes: ArraySlice<UInt8>

    /// Nil: the value is no member's, but an element of an array, or the name of a member.
    init?(before index: Int, in text: [UInt8]) {
        var before = text[..<index]
        func skip(_ isSkipped: (UInt8) -> Bool) {
            while let last = before.last, isSkipped(last) { before.removeLast() }
        }
        skip(Self.isSpace)
        guard before.popLast() == UInt8(ascii: ":") else { return nil }
        skip(Self.isSpace)
        guard before.popLast() == UInt8(ascii: "\"") else { return nil }
        // In JSON within a string the quotation mark is escaped.
        skip { $0 == UInt8(ascii: "\\") }
        guard let quote = before.lastIndex(of: UInt8(ascii: "\"")) else { return nil }
        bytes = before[(quote + 1)...]
    }

    /// Whether the name ends in "id", in capital or small letters.
    var endsInID: Bool { bytes.suffix(2).map { $0 | 0x20 } == Array("id".utf8) }

    /// Whether the value is a thing's and no person's, by the last word of the name other than `id`.
    ///
    /// The list names things, and not persons, because an app names its own attributes as it likes, and an id in one of
    /// them must be found. Its words are those of the platforms' fields, and their like, without those that an app may
    /// use for an id, as in `customer_code`: a field that is erased needlessly is better than a person who stays.
    var namesNoPerson: Bool {
        guard let word = words.last(where: { !Self.identifiers.contains($0) }) else { return false }
        return Self.things.contains(word)
    }

    /// In small letters: of `unitAmount_decimal` these are unit, amount and decimal.
    private var words: [String] {
        var (words, isInWord): ([[UInt8]], Bool) = ([[]], false)
        for byte in bytes {
            let isCapital = (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
            let isOther = byte.isASCIIAlphanumeric && !isCapital
            if isCapital && isInWord || !isCapital && !isOther { words.append([]) }
            if isCapital || isOther { words[words.count - 1].append(byte.asciiLowercased) }
            isInWord = isOther
        }
        return words.filter { !$0.isEmpty }.map { String(decoding: $0, as: UTF8.self) }
    }

    private static let identifiers: Set = ["id", "ids", "identifier"]

    private static let things: Set = [
        // Money.
        "amount", "balance", "cents", "commission", "cost", "decimal", "discount", "eur", "fee", "ltv", "micros",
        "nanos", "percent", "percentage", "price", "proceeds", "rate", "revenue", "spent", "subtotal", "tax", "total",
        "units", "usd",
        // Counts.
        "attempt", "attempts", "count", "interval", "quantity", "seats",
        // Versions, and parts of cards and addresses.
        "last4", "sdk", "version", "zip",
        // Times.
        "at", "created", "date", "day", "days", "duration", "end", "millis", "milliseconds", "month", "months", "ms",
        "period", "seconds", "start", "time", "timestamp", "year", "years",
        // What is sold, and where.
        "app", "apple", "group", "offer", "plan", "product", "storefront",
    ]

    private static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
}
