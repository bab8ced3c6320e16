import JSONText
import Vocabulary

@testable import Inbound

/// Bodies with some members set (raw JSON values) or, where nil, taken out.
enum BodyEdit {
    typealias Fields = [(key: String, raw: String?)]

    static func edit(_ text: String, _ fields: Fields) -> String {
        String(decoding: JSONEdit.apply(changes(fields), to: object(Array(text.utf8))), as: UTF8.self)
    }

    /// Inside the object that the members `path` lead to.
    static func edit(_ text: String, in path: String..., set fields: Fields) -> String {
        edit(object(Array(text.utf8)), path[...], fields)
    }

    private static func edit(_ object: JSONObject, _ path: ArraySlice<String>, _ fields: Fields) -> String {
        guard let first = path.first else {
            return String(decoding: JSONEdit.apply(changes(fields), to: object), as: UTF8.self)
        }
        let inner = Self.object(Array(object.raw(first) ?? []))
        let edited = edit(inner, path.dropFirst(), fields)
        return String(decoding: JSONEdit.apply([(first, .set(Array(edited.utf8)))], to: object), as: UTF8.self)
    }

    private static func changes(_ fields: Fields) -> [(key: String, change: JSONEdit.Change)] {
        fields.map { ($0.key, $0.raw.map { .set(Array($0.utf8)) } ?? .remove) }
    }

    private static func object(_ bytes: [UInt8]) -> JSONObject {
        (try? JSONScan.topObject(bytes, depthMax: Limits.jsonDepthMax)) ?? .empty
    }
}

/// What is wrong with a body, or nil where it is read.
func unreadable(_ body: String, from source: Source) -> String? {
    do {
        _ = try event(body, from: source)
        return nil
    } catch {
        return (error as? Unreadable)?.reason ?? "\(error)"
    }
}
