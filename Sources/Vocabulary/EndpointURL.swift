/// An absolute http(s) URL, split into the parts that a request needs. Checked by the configuration.
package struct EndpointURL: Sendable, Hashable {
    package let isTLS: Bool
    /// Without brackets for an IPv6 address.
    package let host: String
    package let port: Int
    /// Path and query, starting with `/`.
    package let target: String

    package init(isTLS: Bool, host: String, port: Int, target: String) {
        self.isTLS = isTLS
        self.host = host
        self.port = port
        self.target = target
    }

    /// Whether both have the same scheme, host and port (RFC 6454 §5), so that one connection serves requests to both.
    package func hasOrigin(of other: EndpointURL) -> Bool {
        host == other.host && port == other.port && isTLS == other.isTLS
    }

    /// Value of the Host header, with the port only if it is not the scheme's own.
    package var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isTLS ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// For a person: without path and query, which are the secret of many a hook.
    package var shown: String { "\(isTLS ? "https" : "http")://\(authority)/\(target == "/" ? "" : "…")" }
}
