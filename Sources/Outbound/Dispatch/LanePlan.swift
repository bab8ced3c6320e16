package import Vocabulary

/// Everything that a lane needs and that can be wrong with its integration. Made for all integrations of a
/// configuration before anything that runs is touched: a reload changes all or nothing.
package struct LanePlan: Sendable {
    let integration: Integration
    let head: RequestHead
    let trust: EndpointTrust
    let signer: StandardWebhooksSigner

    /// False where a file that the integration names may hold something else by now.
    var isSettledByValues: Bool { integration.certificateAuthorityFile == nil }

    /// By the integration's name.
    /// - Parameter version: of Posthouse, for `user-agent`.
    package static func make(_ integrations: [Integration], version: String) throws -> [String: LanePlan] {
        // Reading the system's bundle is slow: once, and only where somebody asks for it.
        let needsSystem = integrations.contains { $0.certificateAuthorityFile == nil && $0.url.isTLS }
        let system = try needsSystem ? EndpointTrust.system() : EndpointTrust.nobody()
        var plans: [String: LanePlan] = [:]
        for integration in integrations {
            plans[integration.name] = LanePlan(
                integration: integration,
                head: try RequestHead(
                    endpoint: integration.url, userAgent: "posthouse/\(version)", headers: integration.headers),
                trust: try integration.certificateAuthorityFile.map { try EndpointTrust.authorities(file: $0) }
                    ?? system,
                signer: try StandardWebhooksSigner(keys: integration.signingKeys))
        }
        return plans
    }
}

/// What adopting a set of integrations came to, by their names.
package struct LaneChanges: Sendable, Equatable {
    package var added: [String] = []
    package var changed: [String] = []
    package var removed: [String] = []

    package init() {}

    package var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
}
