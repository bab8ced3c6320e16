import ArgumentParser
import JSONText
import Vocabulary

/// The option `--json`.
struct OutputOption: ParsableArguments {
    @Flag(help: "Print one JSON document instead of text.") var json = false
}

extension Terminal {
    static func say(_ members: (inout JSONWriter) -> Void) {
        say(String(decoding: JSONWriter.object(members), as: UTF8.self))
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: Timestamp?) { member(key, value?.iso8601) }
}
