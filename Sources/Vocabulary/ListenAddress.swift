/// The address of a listener: an address and a port, or a socket in the file system.
package enum ListenAddress: Sendable, Hashable {
    /// `host` is an IPv4 or IPv6 address in its shortest form (inet_ntop(3)), without brackets; never a name, because a
    /// name may have several addresses. Port 0: the kernel chooses.
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
}
