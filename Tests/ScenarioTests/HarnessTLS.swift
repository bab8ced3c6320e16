import Foundation

/// Shows a certificate in front of a receiver: ends TLS by OpenSSL, under Python, and passes on what it decrypts. The
/// certificate is read anew for each connection, as a server does that was told of a renewed one.
final class TLSFront: Sendable {
    let port: UInt16
    private let child: ChildProcess

    private static let program = """
        import socket, ssl, sys, threading
        def copy(source, target):
            try:
                while part := source.recv(65536): target.sendall(part)
            except OSError: pass
            for end in (source, target):
                try: end.shutdown(socket.SHUT_RDWR)
                except OSError: pass
        def serve(connection):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(sys.argv[2] + ".pem", sys.argv[2] + ".key")
            try: client = context.wrap_socket(connection, server_side=True)
            except OSError: return
            behind = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
            threading.Thread(target=copy, args=(behind, client), daemon=True).start()
            copy(client, behind)
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
        """

    /// - Parameter certificate: its path without `.pem`; the key's is the same with `.key`.
    init(_ receiver: Receiver, certificate: String) throws {
        child = try ChildProcess(["python3", "-c", Self.program, "\(receiver.port)", certificate])
        guard let port = child.waitForOutput(180, { UInt16($0) != nil }).flatMap({ UInt16($0) }) else {
            throw HarnessFailure("no TLS in front of the receiver: \(child.errors)")
        }
        self.port = port
    }

    deinit { child.signal(SIGKILL) }

    var url: String { "https://127.0.0.1:\(port)/hook" }
}

/// An authority whose certificates are for 127.0.0.1, made by the openssl command.
struct CertificateAuthority {
    let directory: ScratchDirectory
    let name: String

    init(_ name: String, in directory: ScratchDirectory) throws {
        (self.directory, self.name) = (directory, name)
        try Self.run(
            ["req", "-x509", "-days", "2", "-subj", "/CN=\(name)", "-keyout", "\(path).key", "-out", "\(path).pem"]
                + Self.newKey)
    }

    private var path: String { "\(directory.path)/\(name)" }
    var pem: String { get throws { try String(contentsOfFile: path + ".pem", encoding: .utf8) } }

    /// Writes a certificate over the one that is at `file`.
    /// - Parameter days: how long it is valid; negative: it has expired.
    func issue(_ file: String, days: Int) throws {
        try directory.write("names", "subjectAltName=IP:127.0.0.1\n")
        try Self.run(["req", "-subj", "/CN=receiver", "-keyout", "\(file).new", "-out", "\(path).csr"] + Self.newKey)
        try Self.run([
            "x509", "-req", "-in", "\(path).csr", "-CA", "\(path).pem", "-CAkey", "\(path).key", "-CAcreateserial",
            "-days", "\(days)", "-extfile", "\(directory.path)/names", "-out", "\(file).pem",
        ])
        guard rename(file + ".new", file + ".key") == 0 else { throw HarnessFailure(call: "rename") }
    }

    private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]

    private static func run(_ arguments: [String]) throws {
        let child = try ChildProcess(["openssl"] + arguments)
        guard child.waitForEnd(180) == .exited(0) else { throw HarnessFailure("openssl: \(child.errors)") }
    }
}
