import Testing
import Vocabulary

/// Oracle: the definition itself, by recursion, over the parts that a pattern was put together of.
@Suite("Filters over the fields of messages")
struct MessageFilterTests {
    private enum Part: CaseIterable {
        case letter
        case accented
        case star
        case escapedStar
        case escapedBackslash

        var written: String {
            switch self {
            case .letter: "a"
            case .accented: "\u{E9}"
            case .star: "*"
            case .escapedStar: #"\*"#
            case .escapedBackslash: #"\\"#
            }
        }

        /// Nil: any run.
        var matched: Unicode.Scalar? {
            switch self {
            case .letter: "a"
            case .accented: "\u{E9}"
            case .star: nil
            case .escapedStar: "*"
            case .escapedBackslash: "\\"
            }
        }
    }

    private static func matches(_ parts: ArraySlice<Part>, _ text: ArraySlice<Unicode.Scalar>) -> Bool {
        guard let first = parts.first else { return text.isEmpty }
        guard let scalar = first.matched else {
            return matches(parts.dropFirst(), text) || (!text.isEmpty && matches(parts, text.dropFirst()))
        }
        return text.first == scalar && matches(parts.dropFirst(), text.dropFirst())
    }

    private static func words<Letter>(_ alphabet: [Letter], upTo length: Int) -> [[Letter]] {
        var all: [[Letter]] = [[]]
        var last: [[Letter]] = [[]]
        for _ in 0..<length {
            last = last.flatMap { word in alphabet.map { word + [$0] } }
            all += last
        }
        return all
    }

    @Test("A pattern is as its definition has it, over every short pattern and text of a small alphabet")
    func exhaustive() {
        let texts: [[Unicode.Scalar]] = Self.words(["a", "\u{E9}", "*", "\\"], upTo: 3)
        var wrong: [String] = []
        for parts in Self.words(Part.allCases, upTo: 4) {
            let written = parts.map(\.written).joined()
            guard let pattern = FieldPattern(written) else {
                wrong.append(written)
                continue
            }
            for scalars in texts {
                let text = String(String.UnicodeScalarView(scalars))
                let isMatch = Self.matches(parts[...], scalars[...])
                if pattern.matches(text) != isMatch { wrong.append("\(written) \(text)") }
            }
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(10))")
    }

    @Test("A backslash before anything but a star or a backslash is no pattern", arguments: [#"\"#, #"a\b"#, #"\\\"#])
    func refused(pattern: String) { #expect(FieldPattern(pattern) == nil) }

    @Test("A question mark is an ordinary character, and two spellings of one letter are two texts")
    func bytes() throws {
        let asked = try #require(FieldPattern("gol?"))
        #expect(asked.matches("gol?") && !asked.matches("gold"))
        let accented = try #require(FieldPattern("caf\u{E9}"))
        #expect(accented.matches("caf\u{E9}") && !accented.matches("cafe\u{301}"))
    }

    @Test("A number matches its digits alone")
    func numbers() {
        #expect(FieldPattern(-12).matches("-12"))
        #expect(!FieldPattern(12).matches("120") && !FieldPattern(12).matches("12.0"))
    }

    @Test("The text of a pattern is the one it was made of", arguments: ["", "gold", "*", "a*b**c*", #"\*a\\*"#, "é*"])
    func text(pattern: String) throws { #expect(try #require(FieldPattern(pattern)).text == pattern) }

    @Test("A hostile pattern costs pattern × text at worst")
    func hostile() throws {
        let pattern = try #require(FieldPattern(String(repeating: "*a", count: 200) + "b"))
        #expect(!pattern.matches(String(repeating: "a", count: 5_000)))
    }

    @Test("Every condition must be met, by one of its patterns; a field that is null meets none, not even a star")
    func conditions() throws {
        let (gold, silver, any) = (
            try #require(FieldPattern("gold*")), try #require(FieldPattern("silver")), try #require(FieldPattern("*"))
        )
        let filter = MessageFilter([.init(.product, [gold, silver]), .init(.resolvedUser, [any])])
        func matches(_ product: String?, _ user: String?) -> Bool {
            filter.matches { field in
                switch field {
                case .product: product
                case .resolvedUser: user
                default: "gold"
                }
            }
        }
        #expect(matches("gold.monthly", "jeff") && matches("silver", ""))
        #expect(!matches("silver.monthly", "jeff"))
        #expect(!matches("gold", nil) && !matches(nil, "jeff"))
    }

    @Test("What a field cannot be read for is the caller's error, and fields that are not named are not read")
    func failures() throws {
        struct Unreadable: Error {}
        let filter = MessageFilter([.init(.product, [try #require(FieldPattern("*"))])])
        #expect(throws: Unreadable.self) { try filter.matches { _ throws(Unreadable) in throw Unreadable() } }
        var asked: [MessageField] = []
        let isMatch = filter.matches { field in
            asked.append(field)
            return "gold"
        }
        #expect(isMatch && asked == [.product])
    }

    @Test("The names are those of the payload")
    func paths() {
        #expect(MessageField.timestamp.path == ["timestamp"])
        #expect(MessageField.environment.path == ["data", "environment"])
        #expect(MessageField.transferFromUser.path == ["data", "transfer", "from", "user_id"])
        #expect(MessageField.allCases.filter(\.isNumber) == [.purchasedAt, .effectiveNextRenewalAt])
    }
}
