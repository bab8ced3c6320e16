import NIOCore

/// Where a listener takes its connections from: what `[server] listen` and `api_listen` say, or a socket that systemd
/// has opened already.
package enum Listen: Hashable, Sendable {
    /// An IP address (never a name: which of its addresses would it be?) and a port; port 0 lets the kernel choose.
    case tcp(host: String, port: Int)
    /// A socket file, absolute.
    case unix(path: String)
    /// A socket that is bound and listening, passed by number. The server owns and closes it.
    case inherited(fileDescriptor: CInt)

    /// Bytes of a socket file's path: `sun_path` of sockaddr_un(7) less its closing NUL.
    package static let socketPathBytesMax = 107

    /// Reads "127.0.0.1:8080", "[::1]:8080" or "unix:/path".
    package init(parsing text: String) throws(ListenMistake) {
        if text.hasPrefix("unix:") {
            self = .unix(path: try Self.socketPath(String(text.dropFirst(5)), in: text))
            return
        }
        guard let colon = text.lastIndex(of: ":") else {
            throw ListenMistake(text, "has no port: write an address and a port such as 127.0.0.1:8080")
        }
        let port = try Self.port(text[text.index(after: colon)...], in: text)
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard host.contains(":") else { throw ListenMistake(text, "holds no IPv6 address between the brackets") }
        } else if host.contains(":") {
            throw ListenMistake(text, "is an IPv6 address without brackets: write it as [::1]:8080")
        }
        guard (try? SocketAddress(ipAddress: String(host), port: port)) != nil else {
            throw ListenMistake(
                text,
                host.isEmpty
                    ? "has no address: 0.0.0.0 or [::] stands for every address of the machine"
                    : "does not begin with an IP address: names are not looked up, write 127.0.0.1 for this machine only"
            )
        }
        self = .tcp(host: String(host), port: port)
    }

    private static func socketPath(_ path: String, in text: String) throws(ListenMistake) -> String {
        guard path.hasPrefix("/"), path.utf8.count > 1, !path.hasSuffix("/") else {
            throw ListenMistake(text, "is not the absolute path of a file: write unix:/run/posthouse/http.sock")
        }
        guard path.utf8.count <= socketPathBytesMax else {
            throw ListenMistake(text, "has a path of more than \(socketPathBytesMax) bytes, which no socket can have")
        }
        guard !path.utf8.contains(0) else { throw ListenMistake(text, "has a NUL in its path") }
        return path
    }

    private static func port(_ digits: Substring, in text: String) throws(ListenMistake) -> Int {
        guard !digits.isEmpty, digits.utf8.count <= 5, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = Int(digits), port <= 65_535
        else { throw ListenMistake(text, "does not end in a port: a number from 0 to 65535 after the last colon") }
        return port
    }
}

extension Listen: CustomStringConvertible {
    /// As it is written in the configuration.
    package var description: String {
        switch self {
        case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        case .inherited(let descriptor): "inherited socket \(descriptor)"
        }
    }
}

/// Why a text is no `Listen`.
package struct ListenMistake: Error, Hashable, CustomStringConvertible {
    package let text: String
    /// Follows on the quoted text: "…" has no port.
    package let reason: String

    init(_ text: String, _ reason: String) {
        self.text = text
        self.reason = reason
    }

    package var description: String { "\"\(text)\" \(reason)" }
}
