import HTTPClient
package import Ledger
import NIOCore
package import Vocabulary

/// Everything that a lane needs and that can be wrong with its integration. Made for all integrations of a
/// configuration before anything that runs is changed: a reload changes all or nothing.
package struct LanePlan: Sendable {
    let head: RequestHead
    let trust: EndpointTrust
    let signer: StandardWebhooksSigner

    /// Plans by the name of their integration.
    /// - Parameter version: of Posthouse, for `user-agent`.
    package static func make(_ integrations: [Integration], version: String) throws -> [String: LanePlan] {
        // Reading the system's bundle is slow: it is read once, and only if an integration needs it.
        let needsSystem = integrations.contains { $0.certificateAuthorityFile == nil && $0.url.isTLS }
        let system = try needsSystem ? EndpointTrust.system() : EndpointTrust.nobody()
        var plans: [String: LanePlan] = [:]
        for integration in integrations {
            plans[integration.name] = LanePlan(
                head: try RequestHead(
                    .post, integration.url, userAgent: "posthouse/\(version)", headers: integration.headers),
                trust: try integration.certificateAuthorityFile.map { try EndpointTrust.authorities(file: $0) }
                    ?? system,
                signer: try StandardWebhooksSigner(keys: integration.signingKeys))
        }
        return plans
    }

    /// A client of the integration's origin, with its egress guard and its trust. Use it on `loop` only.
    /// - Parameter connectionsMax: connections that are opening, busy or idle.
    func client(
        of integration: Integration, connectionsMax: Int, resolver: AddressResolver, loop: any EventLoop
    ) -> EndpointClient {
        EndpointClient(
            endpoint: integration.url, allowsPrivateAddresses: integration.allowsPrivateAddresses, trust: trust,
            resolver: resolver, connectionsMax: connectionsMax, eventLoop: loop)
    }
}

/// An integration as the database has it, and the plan of its lane.
package struct PlannedLane: Sendable {
    package let route: RoutedIntegration
    let plan: LanePlan

    /// No plan was made for an integration.
    package struct Unplanned: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// One lane for each route.
    package static func join(
        _ routes: [RoutedIntegration], _ plans: [String: LanePlan]
    ) throws(Unplanned) -> [PlannedLane] {
        var lanes: [PlannedLane] = []
        for route in routes {
            guard let plan = plans[route.integration.name] else {
                throw Unplanned(description: "no plan was made for the integration \(route.integration.name)")
            }
            lanes.append(PlannedLane(route: route, plan: plan))
        }
        return lanes
    }
}
