import Vocabulary

/// An answer that came in one read and has the plainest form of RFC 9112, as nearly every receiver's has: a status from
/// 200 to 299, fields of one line each, and a body of `content-length` bytes. It says what the HTTP decoder would say,
/// for a small part of the time. Whatever has any other form is the decoder's.
struct WholeAnswer: Equatable {
    let status: Int
    /// The value of Cache-Control.
    let cacheControl: String?
    /// Where the body begins; it goes to the end.
    let bodyStart: Int

    /// Bytes of such an answer, and its fields: fewer than any limit of an answer has.
    static let bytesMax = 4 << 10
    static let fieldsMax = 32

    /// - Parameter bytes: all of a read.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count <= Self.bytesMax, bytes.starts(with: Self.version),
            let code = Self.number(bytes, Self.version.count..<Self.version.count + 3), (200...299).contains(code),
            let afterStatus = Self.lineEnd(bytes, from: Self.version.count + 3),
            bytes[Self.version.count + 3] == UInt8(ascii: " ")
        else { return nil }
        // An answer of 204 has no body (RFC 9112 §6.3), and says nothing of its length.
        var (place, length, cache): (Int, Int?, String?) = (afterStatus + 2, code == 204 ? 0 : nil, nil)
        for _ in 0...Self.fieldsMax {
            guard let end = Self.lineEnd(bytes, from: place) else { return nil }
            if end == place {
                guard length == bytes.count - end - 2 else { return nil }
                (status, cacheControl, bodyStart) = (code, cache, end + 2)
                return
            }
            guard let field = Field(bytes, place..<end) else { return nil }
            if field.isNamed("content-length") {
                guard length == nil, let number = Self.number(bytes, field.value) else { return nil }
                length = number
            } else if field.isNamed("cache-control") {
                guard cache == nil else { return nil }
                cache = String(decoding: bytes[field.value], as: UTF8.self)
            } else if field.isNamed("connection") {
                guard field.hasValue("keep-alive") else { return nil }
            } else if Self.decisive.contains(where: field.isNamed) {
                return nil
            }
            place = end + 2
        }
        return nil
    }

    private static let version = Array("HTTP/1.1 ".utf8)
    /// Other fields that decide where an answer ends, or what becomes of its connection.
    private static let decisive: [StaticString] = ["transfer-encoding", "upgrade", "proxy-connection", "trailer"]

    /// Where the line's CR LF is; nil: there is none, or it has bytes other than printable ASCII.
    private static func lineEnd(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        var place = start
        while place < bytes.count, (0x20...0x7E).contains(bytes[place]) { place += 1 }
        guard place + 1 < bytes.count, bytes[place] == UInt8(ascii: "\r"), bytes[place + 1] == UInt8(ascii: "\n")
        else { return nil }
        return place
    }

    /// Decimal digits, four at most.
    private static func number(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int? {
        guard (1...4).contains(range.count), range.upperBound <= bytes.count else { return nil }
        var number = 0
        for byte in bytes[range] {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            number = number * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return number
    }

    /// One line: a name of letters, digits and `-`, a colon, a space at most, and a value with no space around it.
    private struct Field {
        let bytes: UnsafeRawBufferPointer
        let name: Range<Int>
        let value: Range<Int>

        init?(_ bytes: UnsafeRawBufferPointer, _ line: Range<Int>) {
            var end = line.lowerBound
            while end < line.upperBound, Self.isOfName(bytes[end]) { end += 1 }
            guard end > line.lowerBound, end < line.upperBound, bytes[end] == UInt8(ascii: ":") else { return nil }
            var start = end + 1
            if start < line.upperBound, bytes[start] == UInt8(ascii: " ") { start += 1 }
            let space = UInt8(ascii: " ")
            if start < line.upperBound, bytes[start] == space || bytes[line.upperBound - 1] == space { return nil }
            self.bytes = bytes
            name = line.lowerBound..<end
            value = start..<line.upperBound
        }

        private static func isOfName(_ byte: UInt8) -> Bool {
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "-")
        }

        func isNamed(_ text: StaticString) -> Bool { holds(text, name) }
        func hasValue(_ text: StaticString) -> Bool { holds(text, value) }

        /// - Parameter text: in small letters.
        private func holds(_ text: StaticString, _ range: Range<Int>) -> Bool {
            guard range.count == text.utf8CodeUnitCount else { return false }
            for (index, byte) in bytes[range].enumerated() {
                guard text.utf8Start[index] == byte.asciiLowercased else { return false }
            }
            return true
        }
    }
}
