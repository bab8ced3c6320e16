import Foundation
import Testing
import Vocabulary

/// Oracles: RFC 4648 §10 and Foundation's encoder.
@Suite struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ]) func vectors(plain: String, text: String) {
        #expect(Base64.encode(plain.utf8) == text)
        #expect(Base64.decode(text) == Array(plain.utf8))
    }

    @Test func everyLengthAndByteLikeFoundation() {
        for length in 0..<300 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ length) }
            let text = Data(bytes).base64EncodedString()
            #expect(Base64.encode(bytes) == text)
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            var line = Array("v1,".utf8)
            bytes.withUnsafeBytes { Base64.append($0, to: &line) }
            #expect(line == Array("v1,\(text)".utf8))
        }
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Zg===", "=", "==", "====", "Zg==Zg==", "Z=g=", "Zm9v\n", " Zm9v", "Zm9-", "Zm9_", "Zh==",
        "Zm9=", "Zm8=\0", "Zmé=", "===v",
    ]) func strict(text: String) {
        #expect(Base64.decode(text) == nil)
    }

    /// Of all texts of one group, exactly those that `encode` writes are read.
    @Test func oneTextForEachByte() {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        var read = 0
        for first in digits {
            for second in digits where Base64.decode("\(first)\(second)==") != nil { read += 1 }
        }
        #expect(read == 256)
    }
}
