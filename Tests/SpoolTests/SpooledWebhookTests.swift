import Testing
import Vocabulary

@testable import Spool

/// A webhook as a file. Oracle: the webhook that was written; any other bytes are damage.
@Suite("A webhook as a file of the spool")
struct SpooledWebhookTests {
    static let sample = SpooledWebhook(
        source: "apphud", receivedAt: Timestamp(milliseconds: 1_764_079_200_123),
        headers: [.init(name: "webhook-id", value: "msg_1 with blanks")], body: Array(#"{"event":"ä","n":1}"#.utf8))

    @Test("A file gives back the webhook that was written, whatever is in its body")
    func roundTrip() throws {
        let bodies: [[UInt8]] = [
            [], Array("posthouse-spool 1\n\n".utf8), Array(repeating: 0, count: 70_000), [10, 10, 255, 0],
        ]
        for body in bodies {
            for headers in [[], Self.sample.headers] {
                let webhook = SpooledWebhook(
                    source: "a.b-c_1", receivedAt: Timestamp(milliseconds: -1), headers: headers, body: body)
                #expect(try SpooledWebhook(file: webhook.file) == webhook)
            }
        }
        #expect(Self.sample.header("Webhook-ID") == "msg_1 with blanks" && Self.sample.header("x") == nil)
        #expect(String(decoding: Self.sample.file.prefix(18), as: UTF8.self) == "posthouse-spool 1\n")
    }

    @Test("A file that was cut anywhere is damaged")
    func cut() {
        let file = Self.sample.file
        for length in 0..<file.count {
            #expect(throws: SpooledWebhook.Damage.self, "\(length)") {
                try SpooledWebhook(file: Array(file.prefix(length)))
            }
        }
        #expect(throws: SpooledWebhook.Damage.self) { try SpooledWebhook(file: file + [0]) }
    }

    @Test("A file with any bit of any byte flipped is damaged")
    func flipped() {
        let file = Self.sample.file
        for index in file.indices {
            for bit in 0..<8 {
                var damaged = file
                damaged[index] ^= 1 << bit
                #expect(throws: SpooledWebhook.Damage.self, "byte \(index), bit \(bit)") {
                    try SpooledWebhook(file: damaged)
                }
            }
        }
    }

    @Test("A file of another version is told apart from one that is damaged")
    func otherForm() {
        func isOtherForm(_ text: String) -> Bool? {
            do throws(SpooledWebhook.Damage) {
                _ = try SpooledWebhook(file: Array(text.utf8))
                return nil
            } catch {
                return error.isOtherForm
            }
        }
        for text in ["posthouse-spool 2\nanything", "posthouse-spool 12\n"] { #expect(isOtherForm(text) == true) }
        for text in ["", "posthouse-spool 1\n", "posthouse-spool \n", "posthouse-spool x\n", "posthouse-spoon 2\n"] {
            #expect(isOtherForm(text) == false, "\(text)")
        }
    }

    @Test("A header that would be another line of the file is left out")
    func hostileHeader() throws {
        let hostile = SpooledWebhook(
            source: "a", receivedAt: Timestamp(milliseconds: 0), headers: [.init(name: "x", value: "1\nbody 0\n\n")],
            body: [1])
        #expect(try SpooledWebhook(file: hostile.file).headers.isEmpty)
    }

    /// Oracle: the check value of CRC-64/XZ in Greg Cook's catalogue of CRCs.
    @Test("The checksum is that of xz")
    func checksum() {
        #expect(CRC64.checksum(of: Array("123456789".utf8)[...]) == 0x995D_C9BB_DF19_39FA)
    }

    @Test("Names sort as numbers, and nothing else is a name")
    func names() {
        let names = [9, 10, 100, 9_999_999_999_999_999].map { SpoolName(number: $0, source: "a.b") }
        #expect(names.map(\.text).sorted() == names.map(\.text) && names.sorted() == names)
        for name in names { #expect(SpoolName(name.text) == name) }
        for text in ["", "lock", "1.a", "0000000000000001", "0000000000000001.", "000000000000000x.a"] {
            #expect(SpoolName(text) == nil, "\(text)")
        }
    }
}
