internal import Glibc
package import Vocabulary

/// The only parser of listen addresses.
extension ListenAddress {
    /// Reads `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`. Names are not looked up, because a name may have several
    /// addresses and they may change; only `localhost` is known, as 127.0.0.1.
    package init(parsing text: String) throws(ListenMistake) {
        if text.hasPrefix("unix:") {
            self = .unix(path: try Self.socketPath(String(text.dropFirst(5)), in: text))
            return
        }
        guard let colon = text.lastIndex(of: ":") else {
            throw ListenMistake(text, "has no port: write an address and a port such as 127.0.0.1:8080")
        }
        guard let port = DecimalText.read(text[text.index(after: colon)...], in: 0...65_535) else {
            throw ListenMistake(text, "does not end in a port: a number from 0 to 65535 after the last colon")
        }
        self = .tcp(host: try Self.host(String(text[..<colon]), in: text), port: port)
    }

    private static func host(_ host: String, in text: String) throws(ListenMistake) -> String {
        if host.hasPrefix("["), host.hasSuffix("]") {
            guard let address = NetworkAddress(String(host.dropFirst().dropLast())), address.isIPv6 else {
                throw ListenMistake(text, "holds no IPv6 address between the brackets")
            }
            return address.text
        }
        if host == "localhost" { return "127.0.0.1" }
        guard let address = NetworkAddress(host) else {
            throw ListenMistake(
                text,
                host.isEmpty
                    ? "has no address: 0.0.0.0 or [::] means every address of the machine"
                    : "does not begin with an IP address: names are not looked up, write 127.0.0.1 for this machine only"
            )
        }
        guard !address.isIPv6 else {
            throw ListenMistake(text, "is an IPv6 address without brackets: write it as [::1]:8080")
        }
        return address.text
    }

    private static func socketPath(_ path: String, in text: String) throws(ListenMistake) -> String {
        guard path.hasPrefix("/"), path.utf8.count > 1, !path.hasSuffix("/") else {
            throw ListenMistake(text, "is not the absolute path of a file: write unix:/run/posthouse/http.sock")
        }
        guard path.utf8.count <= ConfigurationLimits.socketPathBytesMax else {
            throw ListenMistake(
                text,
                "has a path of more than \(ConfigurationLimits.socketPathBytesMax) bytes, which no socket can have")
        }
        guard !path.utf8.contains(0) else { throw ListenMistake(text, "has a NUL in its path") }
        return path
    }
}

extension ListenAddress {
    /// Whether an integration needs `allow_private = true` to send here.
    package var isInternal: Bool {
        guard case .tcp(let host, _) = self, case .private? = NetworkAddress(host)?.verdict else { return false }
        return true
    }
}

/// Why a text is no `ListenAddress`.
package struct ListenMistake: Error, Hashable, CustomStringConvertible {
    package let text: String
    /// Follows the quoted text: "…" has no port.
    package let reason: String

    init(_ text: String, _ reason: String) {
        self.text = text
        self.reason = reason
    }

    package var description: String { "\"\(text)\" \(reason)" }
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

/// A literal IP address.
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

    /// As inet_ntop(3) writes it.
    var text: String {
        var characters = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = isIPv6 ? AF_INET6 : AF_INET
        guard inet_ntop(family, bytes, &characters, socklen_t(characters.count)) != nil else { return "" }
        return String(decoding: characters.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// 127.0.0.0/8 and ::1 (RFC 6890).
    var isLoopback: Bool { isIPv6 ? bytes == [UInt8](repeating: 0, count: 15) + [1] : bytes[0] == 127 }

    /// What the egress guard decides.
    var verdict: AddressVerdict {
        isIPv6 ? AddressVerdict.of(v6: bytes) : AddressVerdict.of(v4: bytes.reduce(0) { $0 << 8 | UInt32($1) })
    }
}
