internal import Glibc

/// Where a listener stands: an address and a port, or a socket in the file system.
package enum ListenAddress: Sendable, Hashable {
    /// `host` without brackets; an IPv4 or IPv6 address, or `localhost`. Port 0: the kernel chooses.
    case tcp(host: String, port: Int)
    /// An absolute path.
    case unix(path: String)

    /// `[server] listen` default: behind a proxy of the same machine.
    package static let standard = ListenAddress.tcp(host: "127.0.0.1", port: 8_080)

    /// As the configuration writes it.
    package var text: String {
        switch self {
        case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// Reads `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`; nil for anything else.
    package init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard path.hasPrefix("/"), path.utf8.count <= ConfigurationLimits.socketPathBytesMax,
                !path.utf8.contains(0)
            else { return nil }
            self = .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":"),
            let port = DecimalText.read(text[text.index(after: colon)...], in: 0...65_535)
        else { return nil }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
            guard NetworkAddress(host)?.isIPv6 == true else { return nil }
        } else {
            guard host == "localhost" || NetworkAddress(host)?.isIPv6 == false else { return nil }
        }
        self = .tcp(host: host, port: port)
    }
}

/// Plain decimal numbers.
enum DecimalText {
    /// Digits alone, without sign, at most five; nil outside `range`.
    static func read(_ text: some StringProtocol, in range: ClosedRange<Int>) -> Int? {
        guard !text.isEmpty, text.utf8.count <= 5,
            text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let number = Int(text), range.contains(number)
        else { return nil }
        return number
    }
}

/// A literal IP address, for what the configuration warns about. What may be connected to is Outbound's egress guard.
struct NetworkAddress {
    private let bytes: [UInt8]

    /// Nil for anything that is not written as an address.
    init?(_ text: String) {
        var four = in_addr()
        var six = in6_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            bytes = withUnsafeBytes(of: &four) { Array($0) }
        } else if inet_pton(AF_INET6, text, &six) == 1 {
            bytes = withUnsafeBytes(of: &six) { Array($0) }
        } else {
            return nil
        }
    }

    var isIPv6: Bool { bytes.count == 16 }

    /// 127.0.0.0/8 and ::1 (RFC 6890).
    var isLoopback: Bool { isIPv6 ? bytes == [UInt8](repeating: 0, count: 15) + [1] : bytes[0] == 127 }

    /// Loopback, private and link-local networks (RFC 1918, RFC 3927, RFC 4193, RFC 4291).
    var isInternal: Bool {
        if isLoopback { return true }
        if isIPv6 { return bytes[0] & 0xFE == 0xFC || (bytes[0] == 0xFE && bytes[1] & 0xC0 == 0x80) }
        return bytes[0] == 10 || (bytes[0] == 172 && bytes[1] & 0xF0 == 16) || (bytes[0] == 192 && bytes[1] == 168)
            || (bytes[0] == 169 && bytes[1] == 254)
    }
}
