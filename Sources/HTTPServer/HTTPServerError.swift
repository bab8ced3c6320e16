import Glibc
import NIOCore
package import Vocabulary

/// Why a listener could not be started. Each says what happened, where, and what to do.
package enum HTTPServerError: Error, Hashable, CustomStringConvertible {
    case addressInUse(String)
    case permissionDenied(String)
    /// No interface of this machine has the address.
    case addressNotOfThisMachine(String)
    /// The path of the socket is taken by something that is not a socket, or its folder does not exist.
    case socketPath(String, reason: String)
    /// The inherited descriptor is not a listening stream socket.
    case notAListeningSocket(CInt, reason: String)
    /// Certificate or key cannot be used. The reason never quotes the files.
    case tls(TLSFiles, reason: String)
    case failed(String, reason: String)

    package var description: String {
        switch self {
        case .addressInUse(let address):
            "cannot listen on \(address): another program listens there already; stop it or choose another address"
        case .permissionDenied(let address):
            "cannot listen on \(address): permission denied; ports below 1024 need CAP_NET_BIND_SERVICE, a socket file "
                + "needs a folder that this user may write to"
        case .addressNotOfThisMachine(let address):
            "cannot listen on \(address): this machine has no such address; 0.0.0.0 or [::] means all that it has"
        case .socketPath(let path, let reason):
            "cannot listen on unix:\(path): \(reason)"
        case .notAListeningSocket(let descriptor, let reason):
            "cannot take connections from the inherited descriptor \(descriptor): \(reason)"
        case .tls(let files, let reason):
            "cannot use the certificate \(files.certificate) with the key \(files.key): \(reason)"
        case .failed(let address, let reason):
            "cannot listen on \(address): \(reason)"
        }
    }

    /// Explains a failed bind to a person.
    init(binding listen: Listen, _ error: any Error) {
        guard let error = error as? IOError else {
            self = .failed(listen.text, reason: "\(error)")
            return
        }
        self.init(binding: listen, errno: error.errnoCode)
    }

    init(binding listen: Listen, errno code: CInt) {
        let address = listen.text
        switch (code, listen) {
        case (EADDRINUSE, _): self = .addressInUse(address)
        case (EACCES, _), (EPERM, _), (EROFS, _): self = .permissionDenied(address)
        case (EADDRNOTAVAIL, _): self = .addressNotOfThisMachine(address)
        case (ENOENT, .address(.unix(let path))), (ENOTDIR, .address(.unix(let path))):
            self = .socketPath(path, reason: "its folder does not exist; make it, or let RuntimeDirectory= make it")
        default: self = .failed(address, reason: String(cString: strerror(code)))
        }
    }
}
