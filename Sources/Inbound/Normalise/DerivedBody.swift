internal import JSONText
internal import Vocabulary

/// An original as `format = "source"` restates it: some members set, every other byte as it came.
enum DerivedBody {
    typealias Changes = [(key: String, change: JSONEdit.Change)]

    /// The object that `original` is. It was read once, when it was recorded; were its row damaged since, the facts
    /// still go out, in an object of their own.
    static func object(_ original: [UInt8]) -> JSONObject {
        (try? JSONScan.topObject(original, depthMax: Limits.jsonDepthMax)) ?? .empty
    }

    /// The member `key` of `object` with `changes` made in it.
    static func changing(_ key: String, of object: JSONObject, _ changes: Changes) -> JSONEdit.Change {
        .set(JSONEdit.apply(changes, to: inner(key, of: object)))
    }

    /// The object that a member holds, as a text of its own; an empty one where there is none.
    static func inner(_ key: String, of object: JSONObject) -> JSONObject {
        guard let raw = object.raw(key) else { return .empty }
        return Self.object(Array(raw))
    }

    static func texts(_ texts: [String]) -> JSONEdit.Change {
        var writer = JSONWriter()
        writer.array { array in
            for text in texts { array.string(text) }
        }
        return .set(writer.bytes)
    }
}
