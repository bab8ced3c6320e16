import Foundation
import Vocabulary

@testable import API
@testable import Inbound
@testable import Ledger
@testable import Outbound

/// 0: Retry-After and HTTP dates. 1: ISO 8601. 2: Base64. 3: hex. 4: the stored state of a purchase. 5: cursors and
/// percent-encoding. 6: holders. 7: globs.
enum TextsTarget {
    static func run(_ choice: Int, _ input: [UInt8]) {
        let text = String(decoding: input, as: UTF8.self)
        switch choice {
        case 0: TimesTarget.wait(text)
        case 1: TimesTarget.iso8601(text)
        case 2: base64(input, text)
        case 3: hex(input, text)
        case 4: state(input)
        case 5: cursor(text)
        case 6: holder(text)
        default: glob(input)
        }
    }

    private static func base64(_ input: [UInt8], _ text: String) {
        let written = Base64.encode(input)
        require(written == Data(input).base64EncodedString(), "another Base64 than Foundation's")
        require(Base64.decode(written) == input, "Base64 does not read back the same")
        guard let decoded = Base64.decode(text) else { return }
        require(Base64.encode(decoded) == text, "two texts of the same bytes")
        require(Data(base64Encoded: text) == Data(decoded), "Base64 is read otherwise than by Foundation")
    }

    private static func hex(_ input: [UInt8], _ text: String) {
        let written = Identifier.hex(of: input)
        require(written == input.map { String(format: "%02x", $0) }.joined(), "another hex than printf's")
        require(input.count != 32 || HexSignature.decode(written) == input, "hex does not read back the same")
        if let identifier = Identifier(hex: text) {
            let digits = text.lowercased().filter { $0 != "-" }
            require(identifier.hex == digits, "an identifier reads back otherwise")
            require(Identifier(bytes: identifier.bytes) == identifier, "an identifier is other bytes")
        }
        if let decoded = HexSignature.decode(text) {
            require(Identifier.hex(of: decoded) == text.lowercased(), "a signature reads back otherwise")
        }
    }

    /// What is read is what would be written; and the next webhook finds a state that can be stored.
    private static func state(_ input: [UInt8]) {
        let state: PurchaseState
        do throws(PurchaseState.Unreadable) {
            state = try PurchaseState(bytes: input)
        } catch {
            return requirePlain("\(error)", "what is wrong with a stored state")
        }
        let isOlder = input.first == UInt8(ascii: "1")
        let written = state.bytes(isOlder ? .plain : .checksum)
        require(written == input, "a stored state is written otherwise than it was read")
        for kind in [Fact.Kind.gain, .loss, .transferred, .received] {
            let fact = Fact(
                kind: kind, holder: .user("u2"), counterpart: .anonymous("a1"),
                at: Timestamp(milliseconds: 1_636_307_015_225), until: Timestamp(milliseconds: 1_638_899_015_225))
            let next = TransferResolution.resolve(state, fact, kind: .subscription).state
            require((try? PurchaseState(bytes: next.bytes)) == next, "the next state does not read back the same")
        }
    }

    private static func cursor(_ text: String) {
        if let cursor = LookupCursor(written: text) {
            require(cursor.written == text, "a cursor is written otherwise than it was read")
        }
        for plusIsSpace in [false, true] {
            // Byte by byte: to String a plus sign with a combining mark behind it is no plus sign.
            let spaced = text.utf8.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
            let source = plusIsSpace ? String(decoding: spaced, as: UTF8.self) : text
            guard let decoded = try? PercentText.decode(text, plusIsSpace: plusIsSpace) else { continue }
            let oracle = source.removingPercentEncoding ?? "\u{0}"
            require(decoded.utf8.elementsEqual(oracle.utf8), "percent-encoding is read otherwise than by Foundation")
        }
        for operation in APIOperation.allCases {
            do throws(APIFailure) {
                let parameters = try Parameters(text, of: operation)
                _ = try? parameters.cursor
                _ = try? parameters.limit
            } catch {
                continue
            }
        }
    }

    private static func holder(_ text: String) {
        guard let holder = Holder(storageKey: text) else { return }
        require(holder.storageKey.utf8.elementsEqual(text.utf8), "a holder reads back otherwise")
        require(Holder(storageKey: holder.storageKey) == holder, "a holder is not itself")
    }

    /// A pattern, a newline, a text. The oracle: the same by recursion over characters, for what is short.
    private static func glob(_ input: [UInt8]) {
        guard let end = input.firstIndex(of: 0x0A) else { return }
        let pattern = String(decoding: input[..<end], as: UTF8.self)
        let text = String(decoding: input[(end + 1)...], as: UTF8.self)
        let matches = Glob(pattern).matches(text)
        guard pattern.utf8.count <= 12, text.utf8.count <= 12 else { return }
        let oracle = fits(Array(pattern.unicodeScalars)[...], Array(text.unicodeScalars)[...])
        require(matches == oracle, "a glob matches otherwise than by its definition")
    }

    private static func fits(_ pattern: ArraySlice<Unicode.Scalar>, _ text: ArraySlice<Unicode.Scalar>) -> Bool {
        guard let first = pattern.first else { return text.isEmpty }
        if first == "*" { return (text.startIndex...text.endIndex).contains { fits(pattern.dropFirst(), text[$0...]) } }
        guard let head = text.first, first == "?" || first == head else { return false }
        return fits(pattern.dropFirst(), text.dropFirst())
    }
}
