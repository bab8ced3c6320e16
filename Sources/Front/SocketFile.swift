import Glibc
import NIOCore

/// The file of a unix socket: the kernel makes it with bind(2) but never takes it away, so the one of a daemon that was
/// killed is in the way of the next.
struct SocketFile: Sendable {
    let path: String
    private let device: UInt
    private let inode: UInt

    /// Removes a socket that nobody listens on. Throws where somebody does, or where the path is something else.
    static func makeWay(at path: String) throws(FrontError) {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return }
            throw FrontError(binding: .unix(path: path), errno: errno)
        }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw .socketPath(path, reason: "there is a file that is not a socket; remove it or choose another path")
        }
        switch connectError(path) {
        case 0, EAGAIN: throw .addressInUse("unix:\(path)")  // EAGAIN: somebody listens, with a full queue
        case ECONNREFUSED:
            guard unlink(path) == 0 || errno == ENOENT else {
                throw FrontError(binding: .unix(path: path), errno: errno)
            }
        case let code: throw FrontError(binding: .unix(path: path), errno: code)
        }
    }

    /// The file that was just bound. Everybody may connect, as with systemd's default SocketMode=0666: who may reach
    /// it is said by the folder, who may do what by signatures and tokens.
    init(bound path: String) throws(FrontError) {
        var status = stat()
        guard chmod(path, 0o666) == 0, lstat(path, &status) == 0 else {
            throw FrontError(binding: .unix(path: path), errno: errno)
        }
        self.path = path
        device = UInt(status.st_dev)
        inode = UInt(status.st_ino)
    }

    /// Removes the file, unless another daemon has put its own in its place.
    func remove() {
        var status = stat()
        guard lstat(path, &status) == 0, UInt(status.st_dev) == device, UInt(status.st_ino) == inode else { return }
        unlink(path)
    }

    /// The errno of connecting to it, 0 where somebody answers.
    private static func connectError(_ path: String) -> CInt {
        guard let address = try? SocketAddress(unixDomainSocketPath: path) else { return ENAMETOOLONG }
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        return address.withSockAddr { connect(descriptor, $0, socklen_t($1)) == 0 ? 0 : errno }
    }
}
