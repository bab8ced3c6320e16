import NIOSSL
import Vocabulary

/// Whether a certificate is for a host name: a dNSName of its subjectAltName must say so (RFC 9525 §6).
///
/// NIOSSL's own check comes first but accepts too much for a host that has a name: it also accepts a certificate for
/// the IP address of the peer. Authorities give such certificates to whoever holds the address, so an attacker who
/// forges the look-up of a name could pass for it. For a literal address NIOSSL's check is right and is the only one.
enum HostCheck {
    static func certificate(_ certificate: NIOSSLCertificate, isFor host: String) -> Bool {
        certificate._subjectAlternativeNames().contains { name in
            name.nameType == .dnsName && covers(Array(name.contents), host: host)
        }
    }

    /// Exactly the host, or `*` as its whole first label (RFC 9525 §6.3). Upper and lower case are equal.
    static func covers(_ name: [UInt8], host: String) -> Bool {
        let name = labels(name)
        let host = labels(Array(host.utf8))
        guard name.count == host.count, host.allSatisfy({ !$0.isEmpty }) else { return false }
        if name.first == [UInt8(ascii: "*")] { return name.count > 2 && name.dropFirst() == host.dropFirst() }
        return name == host
    }

    /// The labels in lower case, without the empty one after a trailing dot.
    private static func labels(_ name: [UInt8]) -> [[UInt8]] {
        let lower = name.map(\.asciiLowercased)
        let trimmed = lower.last == UInt8(ascii: ".") ? lower.dropLast() : lower[...]
        return trimmed.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
    }
}
