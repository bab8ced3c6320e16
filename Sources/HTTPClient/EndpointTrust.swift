import NIOCore
package import NIOSSL

/// The certificate authorities that a TLS connection trusts. The system's are read once and shared, because that is
/// slow.
package struct EndpointTrust: Sendable {
    package let context: NIOSSLContext

    /// What is wrong with a `ca_file`, or with the system's bundle.
    package struct Unusable: Error, Sendable, Equatable {
        package let reason: String
    }

    /// The system's certificate authorities.
    package static func system() throws(Unusable) -> EndpointTrust {
        try make(roots: .default, named: "the system's certificate authorities")
    }

    /// Only the authorities of a PEM bundle.
    package static func authorities(file: String) throws(Unusable) -> EndpointTrust {
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try NIOSSLCertificate.fromPEMFile(file)
        } catch {
            throw Unusable(reason: "ca_file \(file) cannot be read as PEM certificates")
        }
        guard !certificates.isEmpty else { throw Unusable(reason: "ca_file \(file) holds no certificate") }
        return try make(roots: .certificates(certificates), named: "ca_file \(file)")
    }

    /// Trusts nobody: for an endpoint without TLS.
    package static func nobody() throws(Unusable) -> EndpointTrust {
        try make(roots: .certificates([]), named: "no certificate authority")
    }

    private static func make(roots: NIOSSLTrustRoots, named name: String) throws(Unusable) -> EndpointTrust {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.certificateVerification = .fullVerification
        configuration.trustRoots = roots
        configuration.applicationProtocols = ["http/1.1"]
        configuration.shutdownTimeout = .milliseconds(HTTPClientLimits.tlsGoodbyeMilliseconds)
        do {
            return EndpointTrust(context: try NIOSSLContext(configuration: configuration))
        } catch {
            throw Unusable(reason: "\(name) cannot be loaded: \(error)")
        }
    }

    static let wrongHost = "the certificate is not for this host"

    /// Explains a TLS error to a person; nil if the error does not come from TLS.
    static func explain(_ error: any Error) -> String? {
        switch error {
        case let extra as NIOSSLExtraError where extra == .failedToValidateHostname:
            wrongHost
        case let extra as NIOSSLExtraError where extra == .serverHostnameImpossibleToMatch:
            "no certificate can be for this host name"
        case is NIOSSLExtraError: "\(error)"
        case NIOSSLError.handshakeFailed(let inner): explain(inner)
        case BoringSSLError.sslError(let stack):
            if stack.contains(where: { $0 == .eofDuringHandshake }) {
                "the server closed the connection during the handshake"
            } else if stack.contains(where: { $0.description.contains("CERTIFICATE_VERIFY_FAILED") }) {
                "the certificate is expired or not signed by a trusted authority"
            } else {
                stack.map(code).joined(separator: ", ")
            }
        case is NIOSSLError, is BoringSSLError: "\(error)"
        default: nil
        }
    }

    /// The last part of BoringSSL's own text, without its source file: `WRONG_VERSION_NUMBER` of `error:…:SSL
    /// routines:OPENSSL_internal:WRONG_VERSION_NUMBER`.
    private static func code(of error: BoringSSLInternalError) -> String {
        let text = error.description.prefix { $0 != "\n" }
        let withoutPlace = text.range(separator: " at ").map { text[..<$0] } ?? text
        return withoutPlace.split(separator: ":").last.map(String.init) ?? String(withoutPlace)
    }
}

extension Substring {
    /// The position of the first `separator`.
    fileprivate func range(separator: String) -> Substring.Index? {
        indices.first { self[$0...].hasPrefix(separator) }
    }
}
