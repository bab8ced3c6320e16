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
            let code = FieldLine.number(bytes, Self.version.count..<Self.version.count + 3), (200...299).contains(code),
            let afterStatus = FieldLine.lineEnd(bytes, from: Self.version.count + 3),
            bytes[Self.version.count + 3] == UInt8(ascii: " ")
        else { return nil }
        // An answer of 204 has no body (RFC 9112 §6.3), and says nothing of its length.
        var (place, length, cache): (Int, Int?, String?) = (afterStatus + 2, code == 204 ? 0 : nil, nil)
        for _ in 0...Self.fieldsMax {
            guard let end = FieldLine.lineEnd(bytes, from: place) else { return nil }
            if end == place {
                guard length == bytes.count - end - 2 else { return nil }
                (status, cacheControl, bodyStart) = (code, cache, end + 2)
                return
            }
            guard let field = FieldLine(bytes, place..<end) else { return nil }
            if field.isNamed("content-length", in: bytes) {
                guard length == nil, let number = FieldLine.number(bytes, field.value) else { return nil }
                length = number
            } else if field.isNamed("cache-control", in: bytes) {
                guard cache == nil else { return nil }
                cache = String(decoding: bytes[field.value], as: UTF8.self)
            } else if field.isNamed("connection", in: bytes) {
                guard field.hasValue("keep-alive", in: bytes) else { return nil }
            } else if Self.decisive.contains(where: { field.isNamed($0, in: bytes) }) {
                return nil
            }
            place = end + 2
        }
        return nil
    }

    private static let version = Array("HTTP/1.1 ".utf8)
    /// Other fields that decide where an answer ends, or what becomes of its connection.
    private static let decisive: [StaticString] = ["transfer-encoding", "upgrade", "proxy-connection", "trailer"]
}
