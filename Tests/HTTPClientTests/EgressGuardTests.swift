import NIOCore
import Testing
import Vocabulary

@testable import HTTPClient

/// Oracle: IANA's special-purpose address registries, the first and last address of each range written out by hand.
@Suite struct EgressGuardTests {
    @Test(arguments: [
        "8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0",
        "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0",
        "203.0.112.255", "203.0.114.0", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001:800::200e", "2001:200::1",
        "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
    ]) func lettingThrough(address: String) throws {
        #expect(try verdict(address) == .allowed)
    }

    @Test(arguments: [
        "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0", "127.0.0.1", "127.255.255.255",
        "169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255",
        "192.0.2.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1",
        "240.0.0.0", "255.255.255.254", "168.63.129.16", "192.88.99.1",
        "::1", "fc00::", "fd00:ec2::254", "fdff:ffff::1", "fe80::1", "febf::1", "fec0::1", "2001:db8::1", "3fff::1",
        "2001:2::1", "2001:20::1", "100::1", "4000::1", "64:ff9b:1::808:808",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "::127.0.0.1",
        "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "2002:a00:1::1", "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ]) func holdingInsideBack(address: String) throws {
        guard case .private = try verdict(address) else {
            Issue.record("\(address): \(try verdict(address))")
            return
        }
        let socket = try SocketAddress(ipAddress: address, port: 443)
        #expect(EgressGuard.problem(with: socket, allowsPrivateAddresses: false) != nil)
        #expect(EgressGuard.problem(with: socket, allowsPrivateAddresses: true) == nil)
    }

    @Test(arguments: [
        "0.0.0.0", "0.255.255.255", "224.0.0.1", "239.255.255.255", "255.255.255.255", "::", "ff02::1", "ff0e::1",
        "::ffff:0.0.0.0", "::ffff:224.0.0.1", "64:ff9b::ffff:ffff", "2002:e000:1::1",
    ]) func neverLetting(address: String) throws {
        let socket = try SocketAddress(ipAddress: address, port: 443)
        #expect(EgressGuard.problem(with: socket, allowsPrivateAddresses: true) != nil)
    }

    @Test func neverLettingAUnixSocket() throws {
        let socket = try SocketAddress(unixDomainSocketPath: "/tmp/s")
        #expect(EgressGuard.problem(with: socket, allowsPrivateAddresses: true) != nil)
    }

    private func verdict(_ address: String) throws -> AddressVerdict {
        EgressGuard.verdict(on: try SocketAddress(ipAddress: address, port: 443))
    }
}
