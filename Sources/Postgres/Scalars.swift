// The PostgreSQL types that Posthouse uses; the oids are those of src/include/catalog/pg_type.dat.

extension FixedWidthInteger {
    /// Reads a big-endian integer from exactly `bytes`.
    @inlinable package init(bigEndianBytes bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        guard bytes.count == MemoryLayout<Self>.size else { throw DecodingFailure(.wrongLength) }
        self.init(bigEndian: bytes.loadUnaligned(as: Self.self))
    }
}

extension Int16: PostgresScalar {
    @inlinable package static var oid: UInt32 { 21 }
    @inlinable package static var arrayOID: UInt32 { 1005 }
    @inlinable package func encode(into writer: inout ValueWriter) { writer.append(bigEndian: self) }
    @inlinable package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        try self.init(bigEndianBytes: bytes)
    }
}

extension Int32: PostgresScalar {
    @inlinable package static var oid: UInt32 { 23 }
    @inlinable package static var arrayOID: UInt32 { 1007 }
    @inlinable package func encode(into writer: inout ValueWriter) { writer.append(bigEndian: self) }
    @inlinable package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        try self.init(bigEndianBytes: bytes)
    }
}

extension Int64: PostgresScalar {
    @inlinable package static var oid: UInt32 { 20 }
    @inlinable package static var arrayOID: UInt32 { 1016 }
    @inlinable package func encode(into writer: inout ValueWriter) { writer.append(bigEndian: self) }
    @inlinable package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        try self.init(bigEndianBytes: bytes)
    }
}

/// `bigint`, for counts.
extension Int: PostgresScalar {
    @inlinable package static var oid: UInt32 { Int64.oid }
    @inlinable package static var arrayOID: UInt32 { Int64.arrayOID }
    @inlinable package func encode(into writer: inout ValueWriter) { writer.append(bigEndian: Int64(self)) }
    @inlinable package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        self.init(try Int64(bigEndianBytes: bytes))
    }
}

extension Bool: PostgresScalar {
    @inlinable package static var oid: UInt32 { 16 }
    @inlinable package static var arrayOID: UInt32 { 1000 }
    @inlinable package func encode(into writer: inout ValueWriter) { writer.append(self ? 1 : 0) }
    @inlinable package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        guard bytes.count == 1 else { throw DecodingFailure(.wrongLength) }
        self = bytes[0] != 0
    }
}

extension Double: PostgresScalar {
    @inlinable package static var oid: UInt32 { 701 }
    @inlinable package static var arrayOID: UInt32 { 1022 }
    @inlinable package func encode(into writer: inout ValueWriter) { writer.append(bigEndian: bitPattern) }
    @inlinable package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        self.init(bitPattern: try UInt64(bigEndianBytes: bytes))
    }
}

/// `text`. PostgreSQL stores no NUL in text: a string with one is refused with SQLSTATE 22021.
extension String: PostgresScalar {
    @inlinable package static var oid: UInt32 { 25 }
    @inlinable package static var arrayOID: UInt32 { 1009 }
    @inlinable package func encode(into writer: inout ValueWriter) { writer.append(utf8) }
    @inlinable package init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure) {
        // The session's client_encoding is UTF8 (Opening.swift), so the server guarantees valid bytes.
        self.init(decoding: bytes, as: UTF8.self)
    }
}
