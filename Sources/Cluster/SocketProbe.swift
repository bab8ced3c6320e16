internal import Glibc

/// Asks a server whether it answers, without a client library: an SSLRequest (PostgreSQL's protocol, "SSL Session
/// Encryption"), which any server answers with one byte before it authenticates the client.
enum SocketProbe {
    /// Blocks its thread for at most `ClusterLimits.answerTimeout`.
    static func answers(directory: String, port: Int) -> Bool {
        let path = Array("\(directory)/.s.PGSQL.\(port)".utf8)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.count <= ClusterLimits.socketPathBytesMax else { return false }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let (seconds, attoseconds) = ClusterLimits.answerTimeout.components
        var timeout = timeval(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &timeout, socklen_t(MemoryLayout<timeval>.size))
        }
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard connected == 0 else { return false }
        // Length 8, then 1234 and 5679 as 16-bit numbers.
        let request: [UInt8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
            return false
        }
        var answer: UInt8 = 0
        return recv(descriptor, &answer, 1, 0) == 1
    }
}
