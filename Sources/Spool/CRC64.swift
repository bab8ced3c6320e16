/// CRC-64 with the polynomial of ECMA-182, reflected, as xz(1) has it: it finds what a disk or a crash does to a file.
enum CRC64 {
    private static let table: [UInt64] = (0..<256).map { index in
        (0..<8).reduce(UInt64(index)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0xC96C_5795_D787_0F42 : value >> 1 }
    }

    static func checksum(of bytes: ArraySlice<UInt8>) -> UInt64 {
        table.withUnsafeBufferPointer { table in
            bytes.withUnsafeBufferPointer { bytes in
                var value = ~UInt64(0)
                for byte in bytes { value = table[Int(UInt8(truncatingIfNeeded: value) ^ byte)] ^ value >> 8 }
                return ~value
            }
        }
    }
}
