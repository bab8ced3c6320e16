package import Vocabulary

/// Why a text is no URL of a receiver.
package enum EndpointError: Error, Hashable {
    case notAbsolute
    case scheme
    case userInfo
    case fragment
    case noHost
    case host
    case port
    case character
    case tooLong

    /// After the name of the key or option, such as "`url` ".
    package var text: String {
        switch self {
        case .notAbsolute: "must be an absolute URL such as \"https://api.example.com/hooks\""
        case .scheme: "must begin with https:// or http://"
        case .userInfo: "must not hold a user name or password"
        case .fragment: "must not have a fragment (`#…`): it would never be sent"
        case .noHost: "has no host"
        case .host: "has a host that is neither a name in ASCII (xn--… for others) nor an IP address"
        case .port: "has a port outside 1…65535"
        case .character: "has a character that a URL must percent-encode"
        case .tooLong: "is longer than \(ConfigurationLimits.urlBytesMax) bytes"
        }
    }
}

/// Reads absolute http(s) URLs (RFC 3986) into the parts that a request needs.
package enum EndpointText {
    package static func read(_ text: String) throws(EndpointError) -> EndpointURL {
        guard text.utf8.count <= ConfigurationLimits.urlBytesMax else { throw .tooLong }
        guard let mark = text.firstRange(of: "://") else { throw .notAbsolute }
        let isTLS: Bool
        switch text[..<mark.lowerBound].lowercased() {
        case "https": isTLS = true
        case "http": isTLS = false
        default: throw .scheme
        }
        let rest = text[mark.upperBound...]
        let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        let authority = rest[..<end]
        let tail = rest[end...]
        if authority.contains("@") { throw .userInfo }
        if tail.contains("#") { throw .fragment }
        let (host, port) = try split(authority, defaultPort: isTLS ? 443 : 80)
        guard tail.utf8.allSatisfy(isTargetByte) else { throw .character }
        let target = tail.hasPrefix("/") ? String(tail) : "/" + tail
        return EndpointURL(isTLS: isTLS, host: host, port: port, target: target)
    }

    private static func split(
        _ authority: Substring, defaultPort: Int
    ) throws(EndpointError) -> (host: String, port: Int) {
        var host = authority
        var port: Substring?
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else { throw .host }
            host = authority[authority.index(after: authority.startIndex)..<close]
            let after = authority[authority.index(after: close)...]
            guard after.isEmpty || after.hasPrefix(":") else { throw .host }
            port = after.isEmpty ? nil : after.dropFirst()
            guard NetworkAddress(String(host))?.isIPv6 == true else { throw .host }
        } else if let colon = authority.firstIndex(of: ":") {
            host = authority[..<colon]
            port = authority[authority.index(after: colon)...]
        }
        guard !host.isEmpty else { throw .noHost }
        if !authority.hasPrefix("["), !isName(host) { throw .host }
        guard let port else { return (host.lowercased(), defaultPort) }
        guard let number = DecimalText.read(port, in: 1...65_535) else { throw .port }
        return (host.lowercased(), number)
    }

    /// Labels of letters, digits, `-` and `_` (some internal names have one), none empty; IPv4 addresses too.
    private static func isName(_ host: Substring) -> Bool {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        return host.utf8.count <= 253
            && labels.allSatisfy { label in
                !label.isEmpty && label.utf8.count <= 63
                    && label.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-_".utf8.contains($0) }
            }
    }

    /// `pchar`, `/` and `?` of RFC 3986 §3.3 and §3.4.
    private static func isTargetByte(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || "-._~!$&'()*+,;=:@%/?".utf8.contains(byte)
    }
}

extension EndpointURL {
    /// Whether a request to it stays on this machine.
    package var isLocal: Bool {
        host == "localhost" || host.hasSuffix(".localhost") || NetworkAddress(host)?.isLoopback == true
    }

    /// What the egress guard decides, as far as the host is an address or a name of this machine.
    var verdict: AddressVerdict { isLocal ? .private("loopback") : NetworkAddress(host)?.verdict ?? .allowed }
}
