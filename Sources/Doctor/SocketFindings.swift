import Configuration
package import Vocabulary

/// Compares the addresses of the socket unit with the configuration's. Each of the socket's must be one of the
/// configuration's, or the daemon does not start; those that the socket lacks are opened by the daemon.
package enum SocketFindings {
    private static let stream = " (Stream)"

    /// - Parameters:
    ///   - unit: of the socket; nil: there is none.
    ///   - configured: `listen`, and `api_listen` where it is given.
    package static func of(_ unit: UnitFacts?, configured: [ListenAddress]) -> [DoctorFinding] {
        let said = configured.map(\.text).joined(separator: ", ")
        guard let unit, unit.isLoaded, !unit.listens.isEmpty else {
            return [DoctorFinding(.socket, .fine, "the daemon opens \(said) itself")]
        }
        var found: [DoctorFinding] = []
        for listen in unit.listens {
            guard let address = address(listen) else {
                found.append(
                    DoctorFinding(
                        .socket, .wrong, "\(unit.id) listens on \(listen), which the daemon cannot serve",
                        do: "systemctl edit \(unit.id): let ListenStream= be \(said)"))
                continue
            }
            guard !configured.contains(address) else { continue }
            found.append(
                DoctorFinding(
                    .socket, .wrong, "\(unit.id) listens on \(address.text), the configuration on \(said)",
                    do: "let ListenStream= (systemctl edit \(unit.id)) and [server] listen, or api_listen, be the same"
                ))
        }
        guard found.isEmpty else { return found }
        let held = unit.listens.compactMap(address)
        let own = configured.filter { !held.contains($0) }.map(\.text)
        let rest = own.isEmpty ? "" : "; the daemon opens \(own.joined(separator: ", ")) itself"
        return [
            DoctorFinding(
                .socket, .fine, "\(unit.id) holds \(held.map(\.text).joined(separator: ", ")), as configured\(rest)")
        ]
    }

    /// The address of a line of `Listen=`; nil: it is none that a configuration can name.
    private static func address(_ listen: String) -> ListenAddress? {
        guard listen.hasSuffix(stream) else { return nil }
        let text = String(listen.dropLast(stream.count))
        return try? ListenAddress(parsing: text.hasPrefix("/") ? "unix:" + text : text)
    }
}
