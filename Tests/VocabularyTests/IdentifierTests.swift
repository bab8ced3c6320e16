import Foundation
import Testing
import Vocabulary

/// Oracle: Foundation's UUID.
@Suite("Identifiers")
struct IdentifierTests {
    @Test("Bytes, hex and PostgreSQL's spelling all name the same")
    func forms() {
        for _ in 0..<100 {
            let uuid = UUID()
            let bytes = withUnsafeBytes(of: uuid.uuid) { Array($0) }
            let id = Identifier(bytes: bytes)
            #expect(id.bytes == bytes && bytes.withUnsafeBytes { Identifier(rawBytes: $0) } == id)
            #expect(Identifier(hex: uuid.uuidString) == id && Identifier(hex: uuid.uuidString.lowercased()) == id)
            #expect(id.hex == uuid.uuidString.lowercased().filter { $0 != "-" })
            #expect(Identifier(hex: id.hex) == id)
            #expect(Identifier(bytes: bytes + [1, 2, 3]) == id, "a digest is longer")
        }
    }

    @Test("Ordered as PostgreSQL orders uuid: by their bytes")
    func order() {
        let ids = (0..<200).map { _ in Identifier(high: .random(in: 0...3), low: .random(in: 0...UInt64.max)) }
        let byBytes = ids.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        #expect(ids.sorted() == byBytes)
    }

    @Test(
        "Anything else is none",
        arguments: [
            "", "0", String(repeating: "0", count: 31), String(repeating: "0", count: 33),
            String(repeating: "g", count: 32), String(repeating: "０", count: 32),
            " " + String(repeating: "0", count: 32),
        ])
    func refused(text: String) { #expect(Identifier(hex: text) == nil) }

    @Test("Hex of any bytes")
    func hex() { #expect(Identifier.hex(of: [0, 1, 0x9F, 0xFF]) == "00019fff" && Identifier.hex(of: []) == "") }
}
