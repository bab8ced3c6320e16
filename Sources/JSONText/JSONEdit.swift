/// Changes top-level members of an object and leaves every other byte unchanged: blanks, order, the spelling of numbers
/// and escapes.
package enum JSONEdit {
    package enum Change: Sendable {
        /// One JSON value, written unchanged.
        case set([UInt8])
        case remove

        package static func string(_ text: String) -> Change { .set(JSONWriter.literal(text)) }
    }

    /// The text of `object` with `changes` made. An existing member is replaced in its place or removed; a new one is
    /// added at the end, in the order given and with the blanks that the text uses between members.
    ///
    /// The last of several changes of one key applies.
    package static func apply(_ changes: [(key: String, change: Change)], to object: JSONObject) -> [UInt8] {
        var pending = [String: Change]()
        for (key, change) in changes { pending[key] = change }

        let bytes = object.bytes
        let members = object.members
        let inside = members.first?.key.lowerBound ?? object.range.lowerBound + 2
        var out = [UInt8](bytes[..<(inside - 1)])
        out.reserveCapacity(bytes.count + 256)
        var isFirst = true
        for (index, member) in members.enumerated() {
            let change = pending.removeValue(forKey: JSONString.decoded(bytes, member.key))
            if case .remove = change { continue }
            if !isFirst { out.append(contentsOf: separator(before: index, of: object)) }
            isFirst = false
            if case .set(let value) = change {
                out.append(contentsOf: bytes[(member.key.lowerBound - 1)..<member.valueStart])
                out.append(contentsOf: value)
            } else {
                out.append(contentsOf: bytes[(member.key.lowerBound - 1)..<member.valueEnd])
            }
        }
        for (key, _) in changes {
            guard case .set(let value) = pending.removeValue(forKey: key) else { continue }
            if !isFirst { out.append(contentsOf: members.count > 1 ? separator(before: 1, of: object) : [0x2C]) }
            isFirst = false
            out.append(contentsOf: JSONWriter.literal(key))
            out.append(contentsOf: colon(of: object))
            out.append(contentsOf: value)
        }
        out.append(contentsOf: bytes[(members.last?.valueEnd ?? object.range.lowerBound + 1)...])
        return out
    }

    /// The comma before the member at `index` (not the first), with the blanks around it.
    private static func separator(before index: Int, of object: JSONObject) -> ArraySlice<UInt8> {
        object.bytes[object.members[index - 1].valueEnd..<(object.members[index].key.lowerBound - 1)]
    }

    /// The colon as it is written in the text's first member, with the blanks around it.
    private static func colon(of object: JSONObject) -> ArraySlice<UInt8> {
        guard let first = object.members.first else { return [UInt8(ascii: ":")] }
        return object.bytes[(first.key.upperBound + 1)..<first.valueStart]
    }
}
