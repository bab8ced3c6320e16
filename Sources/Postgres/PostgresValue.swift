/// A Swift type that is sent to and read from PostgreSQL in its binary form. Other targets may conform their own types:
/// one that is also an array's element conforms to `PostgresScalar`.
///
/// The binary forms are those of PostgreSQL's `…send`/`…recv` functions: integers big-endian, text as UTF-8, bytea and
/// uuid unchanged.
///
/// `@inlinable` here and below lets a caller in another target be compiled for its own types. Without it each value
/// goes through the runtime's generics, which cost more than the encoding.
@usableFromInline package protocol PostgresValue: Sendable {
    /// The type's oid in pg_type. Only types whose oid is fixed in PostgreSQL's catalogue can be declared.
    static var oid: UInt32 { get }
    /// Appends the binary form, or calls `writer.writeNull()` and nothing else.
    func encode(into writer: inout ValueWriter)
    /// `bytes` is nil for NULL, and valid for this call only.
    static func decode(_ bytes: UnsafeRawBufferPointer?) throws(DecodingFailure) -> Self
}

/// An element type of arrays. Separate from `PostgresValue` because `[UInt8]` is bytea, not an array: `UInt8` is an
/// element without being a value.
@usableFromInline package protocol PostgresElement: Sendable {
    /// The oid of the PostgreSQL type of `[Self]`.
    static var arrayOID: UInt32 { get }
    static func encodeArray(_ elements: [Self], into writer: inout ValueWriter)
    static func decodeArray(_ bytes: UnsafeRawBufferPointer) throws(DecodingFailure) -> [Self]
}

/// A plain type with an array type of its own. Conforming needs `oid`, `arrayOID`, `encode(into:)` and `init(binary:)`.
@usableFromInline package protocol PostgresScalar: PostgresValue, PostgresElement {
    /// Reads the binary form of a value that is not NULL.
    init(binary bytes: UnsafeRawBufferPointer) throws(DecodingFailure)
}

extension PostgresScalar {
    @inlinable package static func decode(_ bytes: UnsafeRawBufferPointer?) throws(DecodingFailure) -> Self {
        guard let bytes else { throw DecodingFailure(.unexpectedNull) }
        return try Self(binary: bytes)
    }
}

extension Optional: PostgresValue where Wrapped: PostgresValue {
    @inlinable package static var oid: UInt32 { Wrapped.oid }

    @inlinable package func encode(into writer: inout ValueWriter) {
        if let self { self.encode(into: &writer) } else { writer.writeNull() }
    }

    @inlinable package static func decode(_ bytes: UnsafeRawBufferPointer?) throws(DecodingFailure) -> Self {
        guard let bytes else { return nil }
        return try Wrapped.decode(bytes)
    }
}

extension Optional: PostgresElement where Wrapped: PostgresValue & PostgresElement {
    @inlinable package static var arrayOID: UInt32 { Wrapped.arrayOID }
}

/// The bytes of a statement's parameters: one growing array for all of them.
@usableFromInline package struct ValueWriter: Sendable {
    @usableFromInline var bytes: [UInt8] = []
    /// The value being written was NULL; the method that frames the value reads and clears it.
    @usableFromInline var wroteNull = false

    @inlinable package mutating func append(_ byte: UInt8) { bytes.append(byte) }

    @inlinable package mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

    /// Appends an integer big-endian.
    @inlinable package mutating func append<Value: FixedWidthInteger>(bigEndian value: Value) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    @inlinable package mutating func writeNull() { wroteNull = true }

    @inlinable package mutating func reserve(_ count: Int) { bytes.reserveCapacity(bytes.count + count) }

    mutating func removeAll(keepingCapacity: Bool) { bytes.removeAll(keepingCapacity: keepingCapacity) }

    /// Writes `value` without a frame; returns its length in bytes, or nil for NULL.
    @inlinable package mutating func write(_ value: some PostgresValue) -> Int? {
        let start = bytes.count
        value.encode(into: &self)
        defer { wroteNull = false }
        return wroteNull ? nil : bytes.count - start
    }

    /// Writes `value` after its length as an Int32, −1 for NULL: the frame of an array's element.
    @inlinable package mutating func writeFramed(_ value: some PostgresValue) {
        let frame = bytes.count
        append(bigEndian: Int32(-1))
        guard let length = write(value) else { return }
        overwrite(at: frame, with: Int32(truncatingIfNeeded: length))
    }

    @inlinable package mutating func overwrite(at offset: Int, with value: Int32) {
        let pattern = UInt32(bitPattern: value)
        for index in 0..<4 { bytes[offset + index] = UInt8(truncatingIfNeeded: pattern >> (24 - 8 * UInt32(index))) }
    }
}

/// The bytes of a result do not match the declared type. Carries no data.
@usableFromInline package struct DecodingFailure: Error, Hashable {
    @usableFromInline package enum Reason: String, Sendable {
        case unexpectedNull = "NULL where a value was declared"
        case wrongLength = "a value of the wrong length"
        case malformed = "a malformed value"
    }

    @usableFromInline package let reason: Reason

    @inlinable package init(_ reason: Reason) { self.reason = reason }
}
