/// One strict forward scan over the bytes of a JSON object (RFC 8259), which keeps only the positions of its members.
///
/// Stricter than the RFC, because accepted text is stored, compared and passed on under a signature: the whole text is
/// valid UTF-8 without a byte order mark, no object has a key twice (compared as decoded), no NUL occurs (neither raw
/// nor as `\u0000`: PostgreSQL's `text` cannot hold one), no surrogate is unpaired, nesting is bounded.
///
/// The scan holds its own stack, so nesting costs no call stack; every access to the bytes is bounds-checked. Time is
/// O(n log n) for any input; only objects with very many keys cost the logarithm.
package enum JSONScan {
    /// The object that makes up all of `bytes`; blanks around it are allowed.
    ///
    /// - Parameter depthMax: how many objects and arrays may be open at once, including the outermost.
    package static func topObject(_ bytes: [UInt8], depthMax: Int) throws(JSONError) -> JSONObject {
        let span = bytes.span
        try requireUTF8(span)
        var scan = ObjectScan(at: 0, depthMax: depthMax)
        try scan.run(span)
        var end = scan.at
        while end < span.count, isBlank(span[end]) { end += 1 }
        guard end == span.count else { throw JSONError(span[end] == 0 ? .nul : .bytesAfterTheObject, at: end) }
        return JSONObject(bytes: bytes, range: scan.start..<scan.at, members: scan.members)
    }

    /// The object at `start` of a text that was scanned as a whole before.
    static func nestedObject(_ bytes: [UInt8], at start: Int) throws(JSONError) -> JSONObject {
        var scan = ObjectScan(at: start, depthMax: .max)
        try scan.run(bytes.span)
        return JSONObject(bytes: bytes, range: scan.start..<scan.at, members: scan.members)
    }

    /// The positions of the elements of the array at `start`, in a text that was scanned as a whole before.
    static func nestedElements(_ bytes: [UInt8], at start: Int) throws(JSONError) -> [Range<Int>] {
        var scan = ObjectScan(at: start, depthMax: .max)
        try scan.runArray(bytes.span)
        return scan.elements
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }

    private static func requireUTF8(_ bytes: Span<UInt8>) throws(JSONError) {
        do {
            _ = try UTF8Span(validating: bytes)
        } catch {
            throw JSONError(.notUTF8, at: error.byteOffsets.lowerBound)
        }
    }
}

/// The state of one scan: the open containers and the tokens that may come next.
private struct ObjectScan {
    private enum Expected {
        case value
        case elementOrEnd
        case key
        case keyOrEnd
        /// A comma or the end of the innermost container.
        case more
    }

    private(set) var at: Int
    private(set) var start: Int
    /// The members of every open object, outermost first. Those of an object are removed when it closes, except those
    /// of the outermost.
    private(set) var members: [JSONMember] = []
    /// The elements of the outermost container, if it is an array.
    private(set) var elements: [Range<Int>] = []
    /// For each open container: the index in `members` at which an object's members begin, or `array` for an array.
    private var open: [Int] = []
    private var expected = Expected.keyOrEnd
    private let depthMax: Int

    private static let array = -1

    init(at start: Int, depthMax: Int) {
        self.at = start
        self.start = start
        self.depthMax = depthMax
        members.reserveCapacity(48)
        open.reserveCapacity(8)
    }

    mutating func run(_ bytes: Span<UInt8>) throws(JSONError) {
        skipBlanks(bytes)
        start = at
        guard at < bytes.count, bytes[at] == UInt8(ascii: "{") else {
            throw JSONError(at < bytes.count && bytes[at] == 0 ? .nul : .notAnObject, at: at)
        }
        try openContainer(isObject: true)
        try runToEnd(bytes)
    }

    mutating func runArray(_ bytes: Span<UInt8>) throws(JSONError) {
        try openContainer(isObject: false)
        try runToEnd(bytes)
    }

    private mutating func runToEnd(_ bytes: Span<UInt8>) throws(JSONError) {
        while !open.isEmpty {
            skipBlanks(bytes)
            guard at < bytes.count else { throw JSONError(.unexpectedEnd, at: at) }
            switch (expected, bytes[at]) {
            case (.keyOrEnd, UInt8(ascii: "}")), (.elementOrEnd, UInt8(ascii: "]")): try closeContainer(bytes)
            case (.key, _), (.keyOrEnd, _): try takeKey(bytes)
            case (.value, _), (.elementOrEnd, _):
                if open.count == 1, open[0] == Self.array { elements.append(at..<at) }
                try takeValue(bytes)
            case (.more, _): try takeMore(bytes)
            }
        }
    }

    private mutating func takeKey(_ bytes: Span<UInt8>) throws(JSONError) {
        guard bytes[at] == UInt8(ascii: "\"") else { throw unexpected(bytes) }
        let keyStart = at + 1
        let (end, isEscaped) = try JSONToken.endOfString(bytes, from: keyStart)
        at = end
        skipBlanks(bytes)
        guard at < bytes.count else { throw JSONError(.unexpectedEnd, at: at) }
        guard bytes[at] == UInt8(ascii: ":") else { throw unexpected(bytes) }
        at += 1
        skipBlanks(bytes)
        members.append(JSONMember(bytes, key: keyStart..<(end - 1), keyIsEscaped: isEscaped, valueStart: at))
        expected = .value
    }

    private mutating func takeValue(_ bytes: Span<UInt8>) throws(JSONError) {
        switch bytes[at] {
        case UInt8(ascii: "\""): at = try JSONToken.endOfString(bytes, from: at + 1).end
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): at = try JSONToken.endOfNumber(bytes, from: at)
        case UInt8(ascii: "t"): at = try JSONToken.endOfWord("true", bytes, from: at)
        case UInt8(ascii: "f"): at = try JSONToken.endOfWord("false", bytes, from: at)
        case UInt8(ascii: "n"): at = try JSONToken.endOfWord("null", bytes, from: at)
        case UInt8(ascii: "{"): return try openContainer(isObject: true)
        case UInt8(ascii: "["): return try openContainer(isObject: false)
        default: throw unexpected(bytes)
        }
        valueEnded()
    }

    private mutating func takeMore(_ bytes: Span<UInt8>) throws(JSONError) {
        let isArray = open[open.count - 1] == Self.array
        switch bytes[at] {
        case UInt8(ascii: ","):
            at += 1
            expected = isArray ? .value : .key
        case UInt8(ascii: "]") where isArray, UInt8(ascii: "}") where !isArray: try closeContainer(bytes)
        default: throw unexpected(bytes)
        }
    }

    private mutating func openContainer(isObject: Bool) throws(JSONError) {
        guard open.count < depthMax else { throw JSONError(.tooDeep, at: at) }
        open.append(isObject ? members.count : Self.array)
        at += 1
        expected = isObject ? .keyOrEnd : .elementOrEnd
    }

    private mutating func closeContainer(_ bytes: Span<UInt8>) throws(JSONError) {
        let first = open.removeLast()
        if first != Self.array {
            if let offset = JSONMember.duplicateKey(among: members, from: first, in: bytes) {
                throw JSONError(.duplicateKey, at: offset)
            }
            if !open.isEmpty { members.removeLast(members.count - first) }
        }
        at += 1
        valueEnded()
    }

    private mutating func valueEnded() {
        expected = .more
        guard let container = open.last else { return }
        if container != Self.array {
            members[members.count - 1].valueEnd = at
        } else if open.count == 1, let last = elements.indices.last {
            elements[last] = elements[last].lowerBound..<at
        }
    }

    private mutating func skipBlanks(_ bytes: Span<UInt8>) {
        while at < bytes.count, JSONScan.isBlank(bytes[at]) { at += 1 }
    }

    private func unexpected(_ bytes: Span<UInt8>) -> JSONError {
        JSONError(bytes[at] == 0 ? .nul : .unexpectedByte, at: at)
    }
}
