import ArgumentParser
import Configuration
import Glibc
import Inbound
import Vocabulary

/// What a shell offers for names on a command line. A shell asks while a person types, so all answers come from the
/// configuration file and from the program itself, and a file that cannot be used offers nothing and says nothing.
enum NameCompletion {
    static let integrations = CompletionKind.custom { words, _, _ in configured(words).integrations }
    static let sources = CompletionKind.custom { words, _, _ in configured(words).sources }
    static let kinds = CompletionKind.list(SourceKind.allCases.map(\.rawValue))
    static let authentications = CompletionKind.custom { words, _, _ in
        kind(words).traits.authentications.filter { $0 != .none }.map(\.rawValue)
    }
    /// The events of the kind of source that `send` speaks as.
    static let events = CompletionKind.custom { words, _, _ in
        SourceAdapters.adapter(for: kind(words)).knownEventNames
    }
    static let types = CompletionKind.list(StandardTypes.all)

    private static func configured(_ words: [String]) -> ConfiguredNames {
        ConfiguredNames.read(path: value(of: "--config", in: words) ?? ConfigurationFile.standardPath)
    }

    private static func kind(_ words: [String]) -> SourceKind {
        value(of: "--kind", in: words).flatMap { SourceKind(rawValue: $0) } ?? .usual
    }

    /// The value of an option on an unfinished command line, whose words a shell passes as they were typed. bash makes
    /// three words of `--config=FILE`.
    private static func value(of option: String, in words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word.hasPrefix(option + "=") { return unquoted(word.dropFirst(option.count + 1)) }
            guard word == option else { continue }
            let value = words[(index + 1)...].first { $0 != "=" }
            return value.map { unquoted($0[...]) }
        }
        return nil
    }

    /// A word without its quotes and backslashes, and with `~/` replaced. Other expansions of a shell are not made.
    private static func unquoted(_ word: Substring) -> String {
        var (text, rest) = ("", word)
        if word.hasPrefix("~/"), let home = getenv("HOME") {
            text = String(cString: home)
            rest = word.dropFirst()
        }
        var quote: Character?
        var isEscaped = false
        for character in rest {
            if isEscaped {
                text.append(character)
                isEscaped = false
            } else if character == "\\", quote != "'" {
                isEscaped = true
            } else if character == quote {
                quote = nil
            } else if quote == nil, character == "'" || character == "\"" {
                quote = character
            } else {
                text.append(character)
            }
        }
        return text
    }
}
