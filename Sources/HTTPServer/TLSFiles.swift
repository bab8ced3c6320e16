import NIOCore
import NIOSSL
package import Vocabulary

extension TLSFiles {
    /// How long to wait for the close_notify of a client: HTTP has already said that the connection ends.
    private static let goodbyeTimeout: TimeAmount = .seconds(1)

    /// Reads both files; TLS 1.2 and later.
    package func load() throws(HTTPServerError) -> TLSCertificate {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate)
            guard !chain.isEmpty else {
                throw HTTPServerError.tls(self, reason: "the certificate file holds no certificate")
            }
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) },
                privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = ["http/1.1"]
            configuration.shutdownTimeout = Self.goodbyeTimeout
            return TLSCertificate(context: try NIOSSLContext(configuration: configuration), chain: chain)
        } catch let error as HTTPServerError {
            throw error
        } catch {
            throw .tls(self, reason: "\(error); both must be readable PEM files that belong together")
        }
    }
}

/// A certificate and its key, read from their files and checked.
package struct TLSCertificate: Sendable {
    let context: NIOSSLContext
    /// Identifies the key, too: another key has another certificate.
    let chain: [NIOSSLCertificate]

    /// When the first certificate ends, which is the listener's own.
    package var endsAt: Timestamp? {
        chain.first.map { Timestamp(milliseconds: Int64($0.notValidAfter) * 1_000) }
    }
}
