/// Whether a request may go to an address: what the egress guard decides by, and `check` warns of.
///
/// The tables are IANA's special-purpose registries (RFC 6890 and its updates). Of IPv6 only the global unicast space
/// 2000::/3 and the forms that embed an IPv4 address can be public; the latter are judged by what they embed.
package enum AddressVerdict: Sendable, Equatable {
    case allowed
    /// Inside: refused unless `allow_private = true`.
    case `private`(String)
    /// No server can be there, whatever the configuration says.
    case impossible(String)

    /// - Parameter address: an IPv4 address in host byte order.
    package static func of(v4 address: UInt32) -> Self {
        if address == 0xffff_ffff { return .impossible("broadcast") }
        if address == 0xa9fe_a9fe { return .private("cloud metadata") }
        // Azure's platform address (metadata, DNS) has a public number but belongs to the inside:
        // learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
        if address == 0xa83f_8110 { return .private("cloud metadata") }
        for range in rangesV4 where address >> (32 - range.bits) == range.prefix >> (32 - range.bits) {
            return range.verdict
        }
        return .allowed
    }

    private static let rangesV4: [(prefix: UInt32, bits: UInt32, verdict: AddressVerdict)] = [
        (0x0000_0000, 8, .impossible("unspecified")),
        (0x7f00_0000, 8, .private("loopback")),
        (0x0a00_0000, 8, .private("a private network")),
        (0xac10_0000, 12, .private("a private network")),
        (0xc0a8_0000, 16, .private("a private network")),
        (0xa9fe_0000, 16, .private("link-local")),
        (0x6440_0000, 10, .private("carrier-grade NAT")),
        (0xc000_0000, 24, .private("IETF protocol assignments")),
        (0xc000_0200, 24, .private("a documentation network")),
        (0xc633_6400, 24, .private("a documentation network")),
        (0xcb00_7100, 24, .private("a documentation network")),
        (0xc058_6300, 24, .private("a 6to4 relay")),
        (0xc612_0000, 15, .private("a benchmarking network")),
        (0xe000_0000, 4, .impossible("multicast")),
        (0xf000_0000, 4, .private("reserved")),
    ]

    /// - Parameter bytes: the sixteen of an IPv6 address.
    package static func of(v6 bytes: [UInt8]) -> Self {
        precondition(bytes.count == 16, "an IPv6 address has 16 bytes")
        if let embedded = embeddedV4(in: bytes) {
            switch of(v4: embedded) {
            case .allowed: return .allowed
            case .private(let what): return .private("\(what), inside an IPv6 address")
            case .impossible(let what): return .impossible("\(what), inside an IPv6 address")
            }
        }
        if bytes == ec2Metadata { return .private("cloud metadata") }
        for range in rangesV6 where starts(bytes, with: range.prefix, bits: range.bits) { return range.verdict }
        return starts(bytes, with: [0x20], bits: 3) ? .allowed : .private("outside the global unicast space")
    }

    /// fd00:ec2::254
    private static let ec2Metadata: [UInt8] = [0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54]

    private static let rangesV6: [(prefix: [UInt8], bits: Int, verdict: AddressVerdict)] = [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 128, .impossible("unspecified")),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 128, .private("loopback")),
        ([0xff], 8, .impossible("multicast")),
        ([0xfc], 7, .private("a private network")),
        ([0xfe, 0x80], 10, .private("link-local")),
        ([0xfe, 0xc0], 10, .private("site-local")),
        // The local-use NAT64 prefix (RFC 8215) embeds at an offset that its operator chooses: all of it is private.
        ([0x00, 0x64, 0xff, 0x9b, 0x00, 0x01], 48, .private("local NAT64")),
        ([0x20, 0x01, 0x0d, 0xb8], 32, .private("a documentation network")),
        ([0x3f, 0xff], 20, .private("a documentation network")),
        // Teredo, which embeds, is judged before. The rest: benchmarking 2001:2::/48, ORCHID and others of 2001::/23.
        ([0x20, 0x01, 0x00], 23, .private("IETF protocol assignments")),
    ]

    /// The IPv4 address at which packets to this one end, if its form embeds one.
    private static func embeddedV4(in bytes: [UInt8]) -> UInt32? {
        func word(at offset: Int) -> UInt32 { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) } }
        let zeros = [UInt8](repeating: 0, count: 12)
        let tail = word(at: 12)
        // Mapped ::ffff:0:0/96 (RFC 4291) and translated ::ffff:0:0:0/96 (RFC 2765).
        if starts(bytes, with: zeros[..<10] + [0xff, 0xff], bits: 96) { return tail }
        if starts(bytes, with: zeros[..<8] + [0xff, 0xff, 0, 0], bits: 96) { return tail }
        // IPv4-compatible ::/96 (RFC 4291, deprecated); :: and ::1 embed nothing.
        if starts(bytes, with: zeros, bits: 96), tail > 1 { return tail }
        // NAT64 64:ff9b::/96 (RFC 6052).
        if starts(bytes, with: [0x00, 0x64, 0xff, 0x9b] + zeros[..<8], bits: 96) { return tail }
        // 6to4 2002::/16 (RFC 3056).
        if starts(bytes, with: [0x20, 0x02], bits: 16) { return word(at: 2) }
        // Teredo 2001::/32 (RFC 4380): the client's address, inverted.
        if starts(bytes, with: [0x20, 0x01, 0x00, 0x00], bits: 32) { return ~tail }
        return nil
    }

    private static func starts(_ bytes: [UInt8], with prefix: some Collection<UInt8>, bits: Int) -> Bool {
        var left = bits
        for (byte, wanted) in zip(bytes, prefix) {
            if left <= 0 { break }
            let mask: UInt8 = left >= 8 ? 0xff : ~(0xff >> UInt8(left))
            if (byte ^ wanted) & mask != 0 { return false }
            left -= 8
        }
        return true
    }
}
