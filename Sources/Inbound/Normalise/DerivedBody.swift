internal import JSONText
internal import Vocabulary

/// An original as `format = "source"` restates it: some members set, every other byte unchanged.
enum DerivedBody {
    typealias Changes = [(key: String, change: JSONEdit.Change)]

    /// Reads the object in `original`. It was readable when it was recorded; if its row has been damaged since, the
    /// facts are still sent, in an object of their own.
    static func object(_ original: [UInt8]) -> JSONObject {
        (try? JSONScan.topObject(original, depthMax: Limits.jsonDepthMax)) ?? .empty
    }

    /// Changes the member `key` of `object` by `changes` inside it.
    static func changing(_ key: String, of object: JSONObject, _ changes: Changes) -> JSONEdit.Change {
        .set(JSONEdit.apply(changes, to: inner(key, of: object)))
    }

    /// The object in a member, as a text of its own; empty if there is none.
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
