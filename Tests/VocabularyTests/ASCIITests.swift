import Testing
import Vocabulary

@Suite("Letters and digits of ASCII")
struct ASCIITests {
    @Test("Each byte is a letter or a digit, or neither; only a capital letter has another in lower case")
    func bytes() {
        let capitals = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
        let small = Array("abcdefghijklmnopqrstuvwxyz".utf8)
        let all = capitals + small + Array("0123456789".utf8)
        for byte in UInt8.min...UInt8.max {
            let lower = capitals.firstIndex(of: byte).map { small[$0] } ?? byte
            #expect(byte.asciiLowercased == lower)
            #expect(byte.isASCIIAlphanumeric == all.contains(byte))
        }
    }
}
