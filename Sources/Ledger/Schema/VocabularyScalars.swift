package import Postgres
package import Vocabulary

/// Encodes an identifier as `uuid`: 16 bytes, no text.
extension Identifier: PostgresScalar {
    package static var oid: UInt32 { 2950 }
    package static var arrayOID: UInt32 { 2951 }

    package func encode(into writer: inout ValueWriter) {
        writer.append(bigEndian: high)
        writer.append(bigEndian: low)
    }

    package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        guard bytes.count == 16 else { throw DecodingFailure(.wrongLength) }
        self.init(rawBytes: bytes)
    }
}

/// `jsonb`. In binary it is text behind the number of its version, 1 (PostgreSQL's jsonb_send).
struct JSONColumn: PostgresScalar, Hashable {
    static var oid: UInt32 { 3802 }
    static var arrayOID: UInt32 { 3807 }
    private static let version: UInt8 = 1

    let text: [UInt8]

    init(text: [UInt8]) { self.text = text }

    func encode(into writer: inout ValueWriter) {
        writer.append(Self.version)
        writer.append(text)
    }

    init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        guard bytes.first == Self.version else { throw DecodingFailure(.malformed) }
        text = Array(bytes.dropFirst())
    }
}

/// `bigint`: milliseconds since 1970.
extension Timestamp: PostgresScalar {
    package static var oid: UInt32 { Int64.oid }
    package static var arrayOID: UInt32 { Int64.arrayOID }
    package func encode(into writer: inout ValueWriter) { milliseconds.encode(into: &writer) }
    package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        self.init(milliseconds: try Int64(binary: bytes))
    }
}
