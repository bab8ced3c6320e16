import Glibc
import NIOCore
package import Vocabulary

/// Checks a descriptor that another program opened, before an event loop owns it: a wrong number must cause a clear
/// error and not a crash inside the loop.
enum InheritedSocket {
    static func check(_ descriptor: CInt) throws(HTTPServerError) {
        func option(_ name: CInt) throws(HTTPServerError) -> CInt {
            var value: CInt = 0
            var size = socklen_t(MemoryLayout<CInt>.size)
            guard getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 else {
                let reason = errno == EBADF ? "it is not open" : "it is not a socket"
                throw .notAListeningSocket(descriptor, reason: reason)
            }
            return value
        }
        guard try option(SO_TYPE) == CInt(SOCK_STREAM.rawValue) else {
            throw .notAListeningSocket(descriptor, reason: "it is not a stream socket; the unit needs ListenStream=")
        }
        guard try option(SO_ACCEPTCONN) == 1 else {
            throw .notAListeningSocket(descriptor, reason: "it does not listen; the unit needs Accept=no")
        }
    }
}

extension Listen {
    /// The address of a socket that another program has bound.
    package static func address(ofInherited descriptor: CInt) throws(HTTPServerError) -> ListenAddress {
        try InheritedSocket.check(descriptor)
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        guard result == 0, let address = address(of: storage) else {
            throw .notAListeningSocket(
                descriptor, reason: "its address cannot be read; it needs an IP address or a path")
        }
        return address
    }

    private static func address(of storage: sockaddr_storage) -> ListenAddress? {
        withUnsafePointer(to: storage) { pointer in
            switch CInt(storage.ss_family) {
            case AF_INET:
                pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    SocketAddress($0.pointee).listenAddress
                }
            case AF_INET6:
                pointer.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                    SocketAddress($0.pointee).listenAddress
                }
            case AF_UNIX:
                pointer.withMemoryRebound(to: sockaddr_un.self, capacity: 1) {
                    SocketAddress($0.pointee).listenAddress
                }
            default: nil
            }
        }
    }
}

extension SocketAddress {
    var listenAddress: ListenAddress? {
        switch self {
        case .v4, .v6:
            guard let ipAddress, let port else { return nil }
            return .tcp(host: ipAddress, port: port)
        case .unixDomainSocket: return pathname.map { .unix(path: $0) }
        }
    }
}
