import Foundation
import Vocabulary

@testable import JSONText

/// The scan takes a subset of what Foundation's parser takes, and reads the same from it; edits change what they name
/// and nothing else.
enum JSONTarget {
    static func run(_ body: [UInt8]) {
        let object: JSONObject
        do throws(JSONError) {
            object = try JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)
        } catch {
            require((0...body.count).contains(error.offset), "an error lies outside the text")
            return requirePlain("\(error)", "what is wrong with a text")
        }
        if let oracle = (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] {
            compare(object, oracle)
        } else {
            require(holdsHugeNumber(body), "the scan takes what Foundation refuses")
        }
        edit(object)
    }

    /// Foundation turns a number with an exponent, or one too long for an integer, into a double, and refuses what
    /// overflows that.
    private static func holdsHugeNumber(_ body: [UInt8]) -> Bool {
        let digits = (UInt8(ascii: "0")...UInt8(ascii: "9"))
        var run = 0
        var longest = 0
        for byte in body {
            run = digits.contains(byte) ? run + 1 : 0
            longest = max(longest, run)
        }
        let hasExponent = zip(body, body.dropFirst()).contains { mark, next in
            (mark | 0x20) == UInt8(ascii: "e") && (digits.contains(next) || next == UInt8(ascii: "+"))
        }
        return longest > 300 || hasExponent && longest >= 3
    }

    private static func compare(_ object: JSONObject, _ oracle: [String: Any]) {
        // Foundation's dictionary takes two spellings of an accented letter for one key; the scan does not.
        guard Set(object.keys).count == object.count else { return }
        // Foundation drops a byte order mark from the beginning of any text.
        let mark: Unicode.Scalar = "\u{FEFF}"
        let hasMark = object.keys.contains { $0.unicodeScalars.contains(mark) }
        if hasMark || object.bytes.contains([0xEF, 0xBB, 0xBF]) { return }
        require(Set(object.keys) == Set(oracle.keys), "other keys than Foundation's")
        for key in object.keys {
            guard let value = oracle[key], let raw = object.raw(key), let first = raw.first else {
                breach("a key without a value")
            }
            switch first {
            case UInt8(ascii: "\""):
                let isSame = ((try? object.string(key)) ?? nil)?.utf8.elementsEqual((value as? String ?? "").utf8)
                require(isSame == true, "another text than Foundation's")
            case UInt8(ascii: "t"), UInt8(ascii: "f"):
                require((try? object.bool(key)) == value as? Bool, "another boolean than Foundation's")
            case UInt8(ascii: "{"):
                guard let inner = (try? object.object(key)) ?? nil, let other = value as? [String: Any] else {
                    breach("an object here, none for Foundation")
                }
                compare(inner, other)
            case UInt8(ascii: "["):
                let objects = (try? object.objects(key))?.count
                require(
                    objects == (value as? [Any])?.count { $0 is [String: Any] }, "another array than Foundation's")
                require((try? object.texts(key)) != nil, "an array whose texts cannot be read")
            case UInt8(ascii: "n"): require(value is NSNull, "null, but not for Foundation")
            default: number(object, key, value)
            }
        }
    }

    private static func number(_ object: JSONObject, _ key: String, _ value: Any) {
        guard let integer = (try? object.integer(key)) ?? nil else { return }
        require((value as? NSNumber)?.int64Value == integer, "another number than Foundation's")
        let text = ((try? object.digits(key)) ?? nil) ?? ""
        require(text.utf8.elementsEqual(object.raw(key) ?? []), "an id is not kept digit for digit")
    }

    private static func edit(_ object: JSONObject) {
        require(JSONEdit.apply([], to: object) == object.bytes, "an edit of nothing changes something")
        let mark = "posthouse\u{1F4EE}\n\"\\"
        let first = object.keys.first
        var changes: [(key: String, change: JSONEdit.Change)] = [(key: mark, change: .string(mark))]
        if let first { changes.append((key: first, change: .remove)) }
        let edited = JSONEdit.apply(changes, to: object)
        guard let again = try? JSONScan.topObject(edited, depthMax: Limits.jsonDepthMax) else {
            breach("an edit makes what the scan refuses: \(String(decoding: edited, as: UTF8.self))")
        }
        if first != mark {
            require(((try? again.string(mark)) ?? nil) == mark, "an edit does not set what it must")
        }
        for key in object.keys where key != first && key != mark {
            require(
                object.raw(key)?.elementsEqual(again.raw(key) ?? []) == true, "an edit changes another member")
        }
    }
}
