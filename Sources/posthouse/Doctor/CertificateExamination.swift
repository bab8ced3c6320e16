import Configuration
import Doctor
import HTTPClient
import HTTPServer
import NIOCore
import NIOPosix
import Vocabulary

/// Reads the listener's certificate and asks each receiver for its own, by a TLS handshake over the way of deliveries.
struct CertificateExamination {
    private static let receiversMax = 50
    private static let receiversAtOnce = 8

    let configuration: Configuration
    let now: Timestamp

    func findings() async -> [DoctorFinding] { ofListener() + (await ofReceivers()) }

    // MARK: The listener

    private func ofListener() -> [DoctorFinding] {
        guard let tls = configuration.server.tls else { return [] }
        return [
            CertificateFindings.of(
                "[server] tls", Self.end(of: tls), now: now,
                advice: "renew \(tls.certificate), then systemctl reload posthouse")
        ]
    }

    private static func end(of tls: TLSFiles) -> Result<Timestamp, CertificateFindings.Failure> {
        for path in [tls.certificate, tls.key] {
            if let reason = unseen(path) { return .failure(.unseen(reason)) }
        }
        do throws(HTTPServerError) {
            guard let end = try tls.load().endsAt else { return .failure(.unusable("there is no certificate")) }
            return .success(end)
        } catch {
            return .failure(.unusable("\(error)"))
        }
    }

    /// Why this process cannot judge a file that the daemon may well read; nil: it can.
    private static func unseen(_ path: String) -> String? {
        switch SecretReader.system.readFile(path, ConfigurationLimits.certificateBytesMax) {
        case .failure(.notPermitted): "\(path) cannot be read by this user"
        case .failure(.notFound) where path.hasPrefix("/run/credentials/"):
            "\(path) is there only while the daemon runs"
        default: nil
        }
    }

    // MARK: The receivers

    private func ofReceivers() async -> [DoctorFinding] {
        let asked = configuration.integrations.filter(\.url.isTLS)
        let needsSystem = asked.contains { $0.certificateAuthorityFile == nil }
        let system: EndpointTrust?
        do throws(EndpointTrust.Unusable) {
            system = needsSystem ? try EndpointTrust.system() : nil
        } catch {
            return [DoctorFinding(.certificates, .wrong, error.reason)]
        }
        let listed = await ask(Array(asked.prefix(Self.receiversMax)), system)
        guard asked.count > Self.receiversMax else { return listed }
        return listed + [
            DoctorFinding(
                .certificates, .note, "of \(asked.count) receivers only the first \(Self.receiversMax) were asked")
        ]
    }

    /// In the order of the integrations.
    private func ask(_ integrations: [Integration], _ system: EndpointTrust?) async -> [DoctorFinding] {
        let found = await withTaskGroup(of: (Int, DoctorFinding).self) { group in
            var found: [Int: DoctorFinding] = [:]
            var next = 0
            while found.count < integrations.count {
                if next < integrations.count, next - found.count < Self.receiversAtOnce {
                    let (index, integration) = (next, integrations[next])
                    group.addTask { (index, await finding(integration, system)) }
                    next += 1
                } else if let (index, one) = await group.next() {
                    found[index] = one
                }
            }
            return found
        }
        return integrations.indices.compactMap { found[$0] }
    }

    private func finding(_ integration: Integration, _ system: EndpointTrust?) async -> DoctorFinding {
        CertificateFindings.ofReceiver(
            DeliveryFindings.Receiver(name: integration.name, host: integration.url.host),
            await Self.end(of: integration, system), now: now)
    }

    private static func end(
        of integration: Integration, _ system: EndpointTrust?
    ) async -> Result<Timestamp, CertificateFindings.Failure> {
        let trust: EndpointTrust
        do throws(EndpointTrust.Unusable) {
            if let file = integration.certificateAuthorityFile {
                if let reason = unseen(file) { return .failure(.unseen(reason)) }
                trust = try EndpointTrust.authorities(file: file)
            } else if let system {
                trust = system
            } else {
                trust = try EndpointTrust.system()
            }
        } catch {
            return .failure(.unusable(error.reason))
        }
        let loop = NIOSingletons.posixEventLoopGroup.next()
        let promise = loop.makePromise(of: Timestamp.self)
        loop.execute {
            let client = EndpointClient(
                endpoint: integration.url, allowsPrivateAddresses: integration.allowsPrivateAddresses, trust: trust,
                resolver: NameResolver().resolver, connectionsMax: 1, eventLoop: loop)
            client.shakeHands(timeout: Examination.limit) { result in
                promise.completeWith(result.mapError { $0 as any Error })
                client.close()
            }
        }
        do {
            return .success(try await promise.futureResult.get())
        } catch let failure as RequestFailure {
            return .failure(.unusable(failure.explanation))
        } catch {
            return .failure(.unusable("\(error)"))
        }
    }
}
