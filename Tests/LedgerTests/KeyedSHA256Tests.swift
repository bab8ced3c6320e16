import Testing
import Vocabulary

@testable import Ledger

/// Oracles: RFC 4231, test cases 1 to 4, 6 and 7; for keys about as long as a block, and for no data, Python's hmac.
@Suite("HMAC-SHA256 under a key that is kept")
struct KeyedSHA256Tests {
    private static let vectors: [(key: [UInt8], data: String, code: String)] = [
        (bytes(0x0B, 20), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            Array("Jefe".utf8), "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            bytes(0xAA, 131), "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
        (
            bytes(0xAA, 131),
            "This is a test using a larger than block-size key and a larger than block-size data. "
                + "The key needs to be hashed before being used by the HMAC algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
        ),
        ([], "abc", "fd7adb152c05ef80dccf50a1fa4c05d5a3ec6da95575fc312ae7c5d091836351"),
        (bytes(0x6B, 63), "abc", "23670528b6b8c55d2f8ef2f36c1f000cec7c23ec76881c485f2e89b5fe705cca"),
        (bytes(0x6B, 64), "abc", "ae0c0e4a2340cf50185eb46aaa8723f4769153661612e212fb0d1fa3170c6202"),
        (bytes(0x6B, 65), "abc", "ed378e5dfa30dc98814ba09b2e610d9b6af66054922ceef9480da094a3f11b2d"),
        (bytes(0x6B, 63), "", "a73e4ae46b2a9f2402fff056e156c0a25551e3db5097f9367522239bfbc2d02e"),
    ]

    private static func bytes(_ byte: UInt8, _ count: Int) -> [UInt8] { [UInt8](repeating: byte, count: count) }

    @Test("The codes of others, however the data is cut and whatever the key has signed before")
    func codes() {
        for (key, data, code) in Self.vectors {
            let keyed = KeyedSHA256(Secret(key))
            let data = Array(data.utf8)
            for cut in [0, data.count / 3, data.count] {
                let parts = [Array(data[..<cut]), [], Array(data[cut...])]
                #expect(Identifier.hex(of: keyed.code(of: parts)) == code)
            }
            #expect(Identifier.hex(of: keyed.code(of: [data])) == code)
        }
    }

    /// Test cases 3 and 4, whose data is no text.
    @Test("Bytes of every kind")
    func noText() {
        let third = KeyedSHA256(Secret(Self.bytes(0xAA, 20))).code(of: [Self.bytes(0xDD, 50)])
        #expect(Identifier.hex(of: third) == "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe")
        let fourth = KeyedSHA256(Secret(Array(1...25))).code(of: [Self.bytes(0xCD, 50)])
        #expect(Identifier.hex(of: fourth) == "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b")
    }

    @Test("Whatever prints it shows nothing of it")
    func prints() {
        let keyed = KeyedSHA256(Secret(Array("hunter2-hunter2".utf8)))
        var dumped = ""
        dump([keyed], to: &dumped)
        for text in ["\(keyed)", String(reflecting: keyed), "\([keyed])", "\(Optional(keyed) as Any)", dumped] {
            #expect(text.contains("(secret)") && !text.contains("SHA256") && !text.contains("inner"), "\(text)")
        }
        #expect(Mirror(reflecting: keyed).children.isEmpty)
    }
}
