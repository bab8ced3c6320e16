/// Position of one member of an object in the text.
struct JSONMember: Sendable {
    /// Hash of the decoded key; equal keys have equal fingerprints.
    private let fingerprint: UInt64
    /// Without the quotes.
    let key: Range<Int>
    private let keyIsEscaped: Bool
    let valueStart: Int
    /// Set when the value has been scanned.
    var valueEnd: Int

    var value: Range<Int> { valueStart..<valueEnd }

    init(_ bytes: Span<UInt8>, key: Range<Int>, keyIsEscaped: Bool, valueStart: Int) {
        self.key = key
        self.keyIsEscaped = keyIsEscaped
        self.valueStart = valueStart
        self.valueEnd = valueStart
        if keyIsEscaped {
            fingerprint = Self.fingerprint(JSONString.decodedBytes(bytes, key).span)
        } else {
            fingerprint = Self.fingerprint(bytes.extracting(key))
        }
    }

    /// The member with this key.
    static func named(_ name: String, among members: [JSONMember], in bytes: Span<UInt8>) -> JSONMember? {
        let wanted = name.utf8.span
        let print = fingerprint(wanted)
        for member in members where member.fingerprint == print {
            if member.keyIsEscaped {
                if areEqual(JSONString.decodedBytes(bytes, member.key).span, wanted) { return member }
            } else if areEqual(bytes.extracting(member.key), wanted) {
                return member
            }
        }
        return nil
    }

    /// Up to this many keys are compared pair by pair to find a duplicate; the members of larger objects are sorted, so
    /// that no object costs more than O(k log k).
    private static let pairwiseKeysMax = 64

    /// Offset of the later occurrence of a key that occurs twice among `members[first...]`.
    static func duplicateKey(among members: [JSONMember], from first: Int, in bytes: Span<UInt8>) -> Int? {
        guard members.count - first > 1 else { return nil }
        if members.count - first <= pairwiseKeysMax {
            for later in (first + 1)..<members.count {
                let print = members[later].fingerprint
                for earlier in first..<later where members[earlier].fingerprint == print {
                    if order(members[earlier], members[later], in: bytes) == 0 { return members[later].key.lowerBound }
                }
            }
            return nil
        }
        let sorted = members[first...].sorted { order($0, $1, in: bytes) < 0 }
        for (earlier, later) in zip(sorted, sorted.dropFirst()) where order(earlier, later, in: bytes) == 0 {
            return max(earlier.key.lowerBound, later.key.lowerBound)
        }
        return nil
    }

    /// A total order over decoded keys: negative, zero (the same key) or positive.
    private static func order(_ left: JSONMember, _ right: JSONMember, in bytes: Span<UInt8>) -> Int {
        if left.fingerprint != right.fingerprint { return left.fingerprint < right.fingerprint ? -1 : 1 }
        let leftBytes = JSONString.decodedBytes(bytes, left.key)
        let rightBytes = JSONString.decodedBytes(bytes, right.key)
        if leftBytes == rightBytes { return 0 }
        return leftBytes.lexicographicallyPrecedes(rightBytes) ? -1 : 1
    }

    private static func areEqual(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        for at in left.indices where left[at] != right[at] { return false }
        return true
    }

    /// A hash without protection against collisions: keys made to collide only cost the comparisons above.
    private static func fingerprint(_ key: Span<UInt8>) -> UInt64 {
        let raw = key.bytes
        let factor: UInt64 = 0x9E37_79B9_7F4A_7C15
        var hash = UInt64(truncatingIfNeeded: key.count) &* factor
        var at = 0
        while at &+ 8 <= key.count {
            hash = (hash ^ raw.unsafeLoadUnaligned(fromByteOffset: at, as: UInt64.self)) &* factor
            hash ^= hash &>> 29
            at &+= 8
        }
        var rest: UInt64 = 0
        while at < key.count {
            rest = rest &<< 8 | UInt64(key[at])
            at &+= 1
        }
        hash = (hash ^ rest) &* factor
        return hash ^ (hash &>> 32)
    }
}
