import ArgumentParser
import JSONText
import Observing
import Vocabulary

/// The option `--json`.
struct OutputOption: ParsableArguments {
    @Flag(help: "Print one JSON document instead of text.") var json = false
}

extension Terminal {
    /// Prints one JSON object. A terminal gets it without characters that would move its cursor.
    static func print(_ members: (inout JSONWriter) -> Void) {
        let text = String(decoding: JSONWriter.object(members), as: UTF8.self)
        print(isOutput ? PlainText.harmlessJSON(text) : text)
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: Timestamp?) { member(key, value?.iso8601) }
}
