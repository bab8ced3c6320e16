/// Where a listener accepts connections: the value of `[server] listen` or `api_listen`, or a socket that systemd has
/// opened already.
package enum Listen: Hashable, Sendable {
    /// An IP address and a port; port 0 lets the kernel choose. Never a name, because a name may have several
    /// addresses.
    case tcp(host: String, port: Int)
    /// A socket file, absolute.
    case unix(path: String)
    /// A socket that is bound and listening, passed by number. The server owns and closes it.
    case inherited(fileDescriptor: CInt)
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
