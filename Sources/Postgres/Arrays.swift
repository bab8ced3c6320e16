// Arrays in the binary form of PostgreSQL's array_send (src/backend/utils/adt/arrayfuncs.c): number of dimensions, a
// flag for NULLs, the element's oid, then length and lower bound of each dimension, then each element after its length.

extension Array: PostgresValue where Element: PostgresElement {
    @inlinable package static var oid: UInt32 { Element.arrayOID }

    @inlinable package func encode(into writer: inout ValueWriter) { Element.encodeArray(self, into: &writer) }

    @inlinable package static func decode(_ bytes: UnsafeRawBufferPointer?) throws(DecodingFailure) -> Self {
        guard let bytes else { throw DecodingFailure(.unexpectedNull) }
        return try Element.decodeArray(bytes)
    }
}

/// `[UInt8]` is bytea: its bytes unchanged.
extension UInt8: PostgresElement {
    @inlinable package static var arrayOID: UInt32 { 17 }
    @inlinable package static func encodeArray(_ elements: [UInt8], into writer: inout ValueWriter) {
        writer.append(elements)
    }
    @inlinable package static func decodeArray(_ bytes: UnsafeRawBufferPointer) throws(DecodingFailure) -> [UInt8] {
        Array(bytes)
    }
}

/// `[[UInt8]]` is bytea[].
extension Array: PostgresElement where Element == UInt8 {
    @inlinable package static var arrayOID: UInt32 { 1001 }
}

extension PostgresElement where Self: PostgresValue {
    @inlinable package static func encodeArray(_ elements: [Self], into writer: inout ValueWriter) {
        writer.beginArray(elements.count, of: Self.oid)
        for element in elements { writer.writeFramed(element) }
    }

    @inlinable package static func decodeArray(_ bytes: UnsafeRawBufferPointer) throws(DecodingFailure) -> [Self] {
        var reader = ArrayReader(bytes)
        let dimensions = try reader.next(Int32.self)
        _ = try reader.next(Int32.self)
        guard try reader.next(UInt32.self) == Self.oid else { throw DecodingFailure(.malformed) }
        if dimensions == 0 { return [] }
        guard dimensions == 1 else { throw DecodingFailure(.malformed) }
        let count = Int(try reader.next(Int32.self))
        _ = try reader.next(Int32.self)
        // Each element takes at least its frame, so a larger count is malformed.
        guard count >= 0, count <= bytes.count / 4 else { throw DecodingFailure(.malformed) }
        var elements: [Self] = []
        elements.reserveCapacity(count)
        for _ in 0..<count { elements.append(try Self.decode(try reader.nextFramed())) }
        return elements
    }
}

extension ValueWriter {
    /// Appends what comes before the elements of an array.
    @inlinable package mutating func beginArray(_ count: Int, of oid: UInt32) {
        // 20 bytes of header, and per element 4 of frame and usually at least 8 of value.
        reserve(20 + count * 12)
        // An array without elements has no dimension; array_recv ignores the NULL flag and reads the frames.
        append(bigEndian: Int32(count == 0 ? 0 : 1))
        append(bigEndian: Int32(0))
        append(bigEndian: oid)
        guard count > 0 else { return }
        append(bigEndian: Int32(truncatingIfNeeded: count))
        append(bigEndian: Int32(1))
    }
}

/// A forward reader over the bytes of one array.
@usableFromInline struct ArrayReader {
    @usableFromInline let bytes: UnsafeRawBufferPointer
    @usableFromInline var offset = 0

    @inlinable init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    @inlinable mutating func next<Value: FixedWidthInteger>(_: Value.Type) throws(DecodingFailure) -> Value {
        try Value(bigEndianBytes: try take(MemoryLayout<Value>.size))
    }

    /// The next element's bytes; nil for NULL.
    @inlinable mutating func nextFramed() throws(DecodingFailure) -> UnsafeRawBufferPointer? {
        let length = try next(Int32.self)
        return length == -1 ? nil : try take(Int(length))
    }

    @inlinable mutating func take(_ count: Int) throws(DecodingFailure) -> UnsafeRawBufferPointer {
        guard count >= 0, bytes.count - offset >= count else { throw DecodingFailure(.malformed) }
        defer { offset += count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + count)])
    }
}
