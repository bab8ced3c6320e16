@testable import Configuration
import Testing

/// Whatever the bytes are, the check ends with a configuration or with an error, and its rendering is one for a
/// terminal.
@Suite struct FuzzTests {
    static let seed = ReferenceTests.uncommented.filter { !$0.hasPrefix("#") && !$0.isEmpty }.joined(separator: "\n")

    private func holds(_ bytes: [UInt8]) -> Bool {
        let outcome = ReferenceTests.harness.check(bytes)
        let rendered = outcome.render()
        return (outcome.configuration == nil) == !outcome.errors.isEmpty
            && rendered.unicodeScalars.allSatisfy { $0 == "\n" || $0 == "\t" || $0.value >= 0x20 }
    }

    @Test func everyTruncation() {
        let bytes = Array(Self.seed.utf8)
        #expect(bytes.count > 1_000)
        for end in bytes.indices where !holds(Array(bytes[..<end])) { Issue.record("cut at \(end)") }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func mutations(_ seed: UInt64) throws {
        var random = SplitMix(state: seed)
        let original = Array(Self.seed.utf8)
        try #require(!original.isEmpty)
        let alphabet = Array("[]{}=\"'.,#\\\n\r\t \u{0}ax0-_9\u{E4}\u{FF}".utf8)
        for round in 0..<400 {
            var bytes = original
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let at = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.insert(alphabet[Int.random(in: 0..<alphabet.count, using: &random)], at: at)
                case 2: bytes.remove(at: at)
                default:
                    let end = Int.random(in: at..<bytes.count, using: &random)
                    bytes.insert(contentsOf: bytes[at..<min(end, at + 80)], at: at)
                }
            }
            if !holds(bytes) { Issue.record("seed \(seed), round \(round)") }
        }
    }

    /// Half a million tables inside one another would overrun the parser's stack.
    @Test func depthIsBounded() {
        let deep = Array(repeating: "a", count: 400_000).joined(separator: ".")
        for text in [
            "[\(deep)]", "\(deep) = 1", "x = { \(deep) = 1 }", String(repeating: "[", count: 100_000),
            "x = " + String(repeating: "[", count: 40) + String(repeating: "]", count: 40),
            "[a.a.a.a.a.a.a.a.a.a.a.a]\na.a.a.a.a.a.a.a.a.a.a.a = { a.a.a.a.a.a.a.a.a.a.a.a = 1 }",
            "x = \"\"\"a\"\"\"\"\"\n[\(deep)]", "x = 'a\\'\n[\(deep)]", "x = \"a\\\"\"\n[\(deep)]",
        ] {
            let outcome = Harness().check(text)
            #expect(outcome.configuration == nil && outcome.errors.count == 1)
        }
        let dots = String(repeating: ".", count: 100)
        #expect(Harness().check(Harness.with("headers = { A = \"\(dots)\" } # \(dots)\n#\(dots)")).diagnostics.isEmpty)
    }

    @Test func sizeIsBounded() {
        let outcome = Harness().check([UInt8](repeating: 0x20, count: ConfigurationLimits.fileBytesMax + 1))
        #expect(Harness.places(outcome.errors) == ["is larger than 4 MiB, the limit for a configuration"])
        #expect(outcome.render().hasPrefix("posthouse.toml: error: is larger"))
    }

    @Test func findingsAreBounded() {
        let lines = (0..<60_000).map { "k\($0) = 1" }.joined(separator: "\n")
        let outcome = Harness().check(lines)
        #expect(outcome.diagnostics.count == ConfigurationLimits.diagnosticsMax + 1)
        #expect(outcome.configuration == nil)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same bytes from the same seed.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
