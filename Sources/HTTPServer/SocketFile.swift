import Glibc
import NIOCore
import Vocabulary

/// The file of a unix socket. NIO removes it when the listener closes; the file of a killed daemon stays and blocks the
/// next one.
enum SocketFile {
    /// Removes a socket that nobody listens on. Throws if somebody does, or if the path is something else.
    static func makeWay(at path: String) throws(HTTPServerError) {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return }
            throw HTTPServerError(binding: .address(.unix(path: path)), errno: errno)
        }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw .socketPath(path, reason: "there is a file that is not a socket; remove it or choose another path")
        }
        switch connectError(path) {
        case 0, EAGAIN: throw .addressInUse("unix:\(path)")  // EAGAIN: somebody listens, with a full queue
        case ECONNREFUSED:
            guard unlink(path) == 0 || errno == ENOENT else {
                throw HTTPServerError(binding: .address(.unix(path: path)), errno: errno)
            }
        case let code: throw HTTPServerError(binding: .address(.unix(path: path)), errno: code)
        }
    }

    /// Lets everybody connect, as with systemd's default SocketMode=0666: the folder decides who reaches the socket,
    /// signatures and tokens decide who may do what.
    static func open(_ path: String) throws(HTTPServerError) {
        guard chmod(path, 0o666) == 0 else { throw HTTPServerError(binding: .address(.unix(path: path)), errno: errno) }
    }

    /// The errno of connecting to it; 0 if somebody listens.
    private static func connectError(_ path: String) -> CInt {
        guard let address = try? SocketAddress(unixDomainSocketPath: path) else { return ENAMETOOLONG }
        let kind = CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        return address.withSockAddr { connect(descriptor, $0, socklen_t($1)) == 0 ? 0 : errno }
    }
}
