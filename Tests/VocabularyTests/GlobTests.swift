import Testing
import Vocabulary

/// Oracle: the definition itself, by recursion.
@Suite("Globs")
struct GlobTests {
    private static func matches(_ pattern: ArraySlice<Unicode.Scalar>, _ text: ArraySlice<Unicode.Scalar>) -> Bool {
        guard let first = pattern.first else { return text.isEmpty }
        if first == "*" {
            return matches(pattern.dropFirst(), text) || (!text.isEmpty && matches(pattern, text.dropFirst()))
        }
        guard let character = text.first else { return false }
        return (first == "?" || first == character) && matches(pattern.dropFirst(), text.dropFirst())
    }

    private static func expected(_ pattern: String, _ text: String) -> Bool {
        matches(Array(pattern.unicodeScalars)[...], Array(text.unicodeScalars)[...])
    }

    @Test("As the definition has it, over every short pattern and text of a small alphabet")
    func exhaustive() {
        func words(_ alphabet: [String], upTo length: Int) -> [String] {
            var all = [""]
            var last = [""]
            for _ in 0..<length {
                last = last.flatMap { word in alphabet.map { word + $0 } }
                all += last
            }
            return all
        }
        let texts = words(["a", "é", "b"], upTo: 4)
        var wrong: [String] = []
        for pattern in words(["a", "é", "*", "?"], upTo: 4) {
            let glob = Glob(pattern)
            for text in texts where glob.matches(text) != Self.expected(pattern, text) {
                wrong.append("\(pattern) \(text)")
            }
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(10))")
    }

    @Test(
        "As the configuration uses them",
        arguments: [
            ("*", "SUBSCRIPTION_RENEWED", true), ("SUBSCRIPTION_*", "SUBSCRIPTION_RENEWED", true),
            ("SUBSCRIPTION_*", "ONE_TIME_PURCHASE_RECEIVED", false), ("*_RECEIVED", "ONE_TIME_PURCHASE_RECEIVED", true),
            ("ACTIVATE", "ACTIVATE", true), ("ACTIVATE", "DEACTIVATE", false), ("*ACTIVATE", "DEACTIVATE", true),
            ("activate", "ACTIVATE", false), ("*?*", "", false), ("**", "", true),
        ])
    func examples(pattern: String, text: String, isMatch: Bool) { #expect(Glob(pattern).matches(text) == isMatch) }

    @Test("A hostile pattern costs pattern × text at worst")
    func hostile() {
        let pattern = Glob(String(repeating: "*a", count: 200) + "b")
        #expect(!pattern.matches(String(repeating: "a", count: 5_000)))
    }
}
