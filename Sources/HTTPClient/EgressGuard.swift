package import NIOCore
package import Vocabulary

/// Decides which addresses a request may go to. Pure: it judges an address that is already resolved, and the client
/// connects to that same address, so a second look-up cannot replace it.
package enum EgressGuard {
    /// Nil if the client may connect to `address`, else the kind of address that it is.
    package static func problem(with address: SocketAddress, allowsPrivateAddresses: Bool) -> String? {
        switch verdict(on: address) {
        case .allowed: nil
        case .private(let what): allowsPrivateAddresses ? nil : what
        case .impossible(let what): what
        }
    }

    package static func verdict(on address: SocketAddress) -> AddressVerdict {
        // The address follows family and port in sockaddr_in; family, port and flow in sockaddr_in6.
        switch address {
        case .v4(let v4): .of(v4: withUnsafeBytes(of: v4.address) { $0[4..<8].reduce(0) { $0 << 8 | UInt32($1) } })
        case .v6(let v6): .of(v6: withUnsafeBytes(of: v6.address) { Array($0[8..<24]) })
        case .unixDomainSocket: .impossible("a unix socket")
        }
    }
}
