/// PEM files of a listener that speaks TLS itself, each path absolute or relative to the working directory.
package struct TLSFiles: Hashable, Sendable {
    /// The certificate, followed by those that lead to its root.
    package let certificate: String
    package let key: String

    package init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}
