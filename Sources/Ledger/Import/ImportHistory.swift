import JSONText
import Vocabulary

/// The member `history` of a line: the lines of a stored state (`PurchaseState.bytes`), an object each, its word with
/// its fields. A holder is two fields, `user` or `anon` and the id, so that the id stands by itself, as an erasure
/// looks for it:
///
///     [{"state":[3]},{"fact":[0,"gain",9000,"-","user","ann"]},{"register":[0,"on","tenure","user","ann"]}]
///
/// The first has the version of the form. Lines of a newer version's kinds are kept as they are.
enum ImportHistory {
    private static let version = "state"
    private static let tab = UInt8(ascii: "\t")
    private static let newline = UInt8(ascii: "\n")

    /// - Parameter state: as it is stored.
    static func write(_ state: [UInt8], into json: inout JSONWriter) {
        json.array { json in
            for (number, line) in state.split(separator: newline).enumerated() {
                let fields = line.split(separator: tab, omittingEmptySubsequences: false)
                json.object { json in
                    json.key(number == 0 ? version : String(decoding: fields[0], as: UTF8.self))
                    json.array { json in
                        // The first line has its version and a checksum, which is made again.
                        for field in number == 0 ? fields.prefix(1) : fields.dropFirst() { write(field, into: &json) }
                    }
                }
            }
        }
    }

    private static func write(_ field: ArraySlice<UInt8>, into json: inout JSONWriter) {
        let text = String(decoding: field, as: UTF8.self)
        if let number = Int64(text), String(number) == text { return json.integer(number) }
        guard field.starts(with: "user:".utf8) || field.starts(with: "anon:".utf8) else { return json.string(text) }
        json.string(String(decoding: field.prefix(4), as: UTF8.self))
        json.string(unescaped(field.dropFirst(5)))
    }

    /// Undoes `PurchaseStateLineWriter.field`.
    private static func unescaped(_ text: ArraySlice<UInt8>) -> String {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let escaped = rest.popFirst() else {
                bytes.append(byte)
                continue
            }
            switch escaped {
            case UInt8(ascii: "t"): bytes.append(tab)
            case UInt8(ascii: "n"): bytes.append(newline)
            case UInt8(ascii: "r"): bytes.append(UInt8(ascii: "\r"))
            default: bytes.append(escaped)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Reads the lines of a state.
    /// - Returns: the state as it is stored.
    static func read(_ lines: [JSONObject]) throws(JSONError) -> Result<[UInt8], ImportFault> {
        var (version, text): (Int?, [UInt8]) = (nil, [])
        for (number, line) in lines.enumerated() {
            guard line.count == 1, let word = line.keys.first else {
                return .failure(ImportFault("an object of history must have exactly one member"))
            }
            let fields = try line.texts(word)
            guard try line.elementCount(word) == fields.count else {
                return .failure(ImportFault("a field of history is neither a text nor an integer"))
            }
            if number == 0 {
                version = word.utf8.elementsEqual(Self.version.utf8) ? fields.first.flatMap { Int($0) } : nil
                continue
            }
            guard let written = Self.line(word, fields) else {
                return .failure(ImportFault("a field of history has a control character"))
            }
            text += written
        }
        guard let version else { return .failure(ImportFault("history must begin with its version")) }
        let sealed = PurchaseState.sealed(version: version, text)
        do throws(PurchaseState.Unreadable) {
            let state = try PurchaseState(bytes: sealed)
            let highest = state.announced.map(\.lastOrdinal).max() ?? 0
            guard max(highest, state.forgottenOrdinal) < PurchaseState.transfersMax / 2 else {
                return .failure(ImportFault("history counts more transfers than there can be"))
            }
            guard state.areCountsShown else {
                return .failure(ImportFault("history counts transfers that nothing shows"))
            }
            return .success(state.bytes)
        } catch {
            return .failure(ImportFault("history, line \(error.line): \(error.reason)"))
        }
    }

    /// Nil: a word holds what would be another line.
    private static func line(_ word: String, _ fields: [String]) -> [UInt8]? {
        var writer = PurchaseStateLineWriter()
        var (bytes, rest) = (Array(word.utf8), fields[...])
        func isPlain(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 } }
        guard isPlain(word) else { return nil }
        while let field = rest.popFirst() {
            if let id = rest.first, field == "user" || field == "anon" {
                rest.removeFirst()
                writer = PurchaseStateLineWriter()
                writer.field(field == "user" ? Holder.user(id) : .anonymous(id))
                bytes += writer.bytes
            } else {
                guard isPlain(field) else { return nil }
                bytes += [tab] + Array(field.utf8)
            }
        }
        return bytes + [newline]
    }
}
