import Foundation
import Testing

@testable import JSONText

/// Thousands of mutated bodies: the scan never crashes, and takes and refuses what Foundation's parser does, but for
/// the rules that are stricter on purpose.
@Suite struct JSONOracleTests {
    private static let seeds = [
        #"{"api_version":3,"event_name":"ACTIVATE","event_created_at_ms":1636307015225,"user_id":"é-1","price":9.99}"#,
        #"{ "a" : [ 1, -2.5e+3, { "b" : null, "c" : [ true, false, "\ud83d\ude00\n" ] } ], "d" : { "e" : {} } }"#,
        "{\n  \"plan\": \"monthly\",\n  \"cumulated_revenues_in_eur\": 69.9,\n  \"is_family_shared\": false\n}",
    ]
    private static let fragments = [
        "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", "null", "true", "\\u", "\\ud800", "é", "\n", " ",
        "\u{1}", "1E5", "00", "\"a\":1,",
    ]

    private static func mutate(_ seed: String, with random: inout SeededGenerator) -> [UInt8] {
        var bytes = Array(seed.utf8)
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            guard !bytes.isEmpty else { break }
            let at = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes.remove(at: at)
            case 2: bytes.insert(contentsOf: fragments.randomElement(using: &random)!.utf8, at: at)
            case 3: bytes.removeSubrange(at..<min(bytes.count, at + Int.random(in: 1...8, using: &random)))
            case 4: bytes.removeLast(bytes.count - at)
            default:
                let end = min(bytes.count, at + Int.random(in: 1...16, using: &random))
                bytes.insert(contentsOf: bytes[at..<end], at: at)
            }
        }
        return bytes
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>) func agreesWithFoundation(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var taken = 0
        for _ in 0..<5_000 {
            let bytes = Self.mutate(Self.seeds.randomElement(using: &random)!, with: &random)
            let oracle = (try? JSONSerialization.jsonObject(with: Data(bytes))) as? [String: Any]
            do {
                let object = try JSONScan.topObject(bytes, depthMax: 64)
                taken += 1
                guard let oracle else {
                    // Foundation turns every number into a double, and refuses those that overflow one.
                    if String(decoding: bytes, as: UTF8.self).contains(/[0-9][eE]\+?[0-9]{3}/) { continue }
                    Issue.record("taken, though Foundation refuses it: \(String(decoding: bytes, as: UTF8.self))")
                    continue
                }
                #expect(Set(object.keys) == Set(oracle.keys))
                expectSameScalars(object, oracle)
            } catch {
                if [.duplicateKey, .nul, .loneSurrogate, .notUTF8, .tooDeep].contains(error.reason) { continue }
                // Foundation takes a comma before a closing bracket; RFC 8259 does not.
                let before = bytes.prefix(error.offset).last { !JSONScan.isBlank($0) }
                if before == UInt8(ascii: ",") { continue }
                #expect(oracle == nil, "refused (\(error)): \(String(decoding: bytes, as: UTF8.self))")
            }
        }
        #expect(taken > 500, "the mutations hardly leave anything to compare")
    }

    private func expectSameScalars(_ object: JSONObject, _ oracle: [String: Any]) {
        for (key, value) in oracle {
            if let text = value as? String { #expect((try? object.string(key)) == text) }
            if let nested = value as? [String: Any] {
                #expect((try? object.object(key)).map { Set($0.keys) } == Set(nested.keys))
            }
        }
    }

    /// Random bytes, and random bytes of JSON's own alphabet, only have to end.
    @Test func endsOnAnything() {
        var random = SeededGenerator(seed: 99)
        let alphabet = Array(#"{}[]",:\u0123dDeE+-. truefalsn"#.utf8)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0...40, using: &random)
            let bytes = [UInt8(ascii: "{")] + (0..<count).map { _ in alphabet.randomElement(using: &random)! }
            guard let object = try? JSONScan.topObject(bytes, depthMax: 8) else { continue }
            for key in object.keys { _ = try? object.digits(key) }
        }
    }
}
