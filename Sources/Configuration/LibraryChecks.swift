package import Vocabulary

/// What only the libraries can say that the daemon uses values by: libpq of connection strings, the TLS library of
/// certificates. Each gives why a value cannot be used, without a secret in it; nil: it can be.
package struct LibraryChecks: Sendable {
    let connectionString: @Sendable (_ text: String) -> String?
    let certificate: @Sendable (_ files: TLSFiles) -> String?
    /// Of a PEM bundle of certificate authorities.
    let authorities: @Sendable (_ path: String) -> String?

    package init(
        connectionString: @escaping @Sendable (_ text: String) -> String?,
        certificate: @escaping @Sendable (_ files: TLSFiles) -> String?,
        authorities: @escaping @Sendable (_ path: String) -> String?
    ) {
        self.connectionString = connectionString
        self.certificate = certificate
        self.authorities = authorities
    }

    /// Objects to nothing: most commands use little of a configuration, and must not fail by the rest.
    package static let none = LibraryChecks(
        connectionString: { _ in nil }, certificate: { _ in nil }, authorities: { _ in nil })
}
