import Configuration
import Doctor
import Systemd

/// What systemd has of the service and its socket.
enum UnitExamination {
    /// The service and its socket; nil: no systemd runs here.
    static func units() async throws -> [UnitFacts]? {
        guard Systemctl.isManager else { return nil }
        let text = try await inTime {
            try await Systemctl.properties(UnitFacts.properties, of: [UnitFindings.service, UnitFindings.socket])
        }
        return UnitFacts.read(text)
    }

    /// What the service is handed over, by the files that systemd has of it.
    static func credentials() async throws -> [UnitCredential] {
        UnitCredentials.all(in: try await inTime { try await Systemctl.unitText(UnitFindings.service) })
    }

    /// `systemd 252 (252.39-1~deb12u2)`; nil: it is not installed.
    static func version() async -> String? {
        try? await inTime { try await Systemctl.version() }
    }

    private static func inTime(_ ask: @escaping @Sendable () async throws -> String) async throws -> String {
        let task = Task { () -> Result<String, any Error> in
            do { return .success(try await ask()) } catch { return .failure(error) }
        }
        guard let result = await TimeLimit.value(of: task, within: Examination.limit) else {
            // Ends the program, too.
            task.cancel()
            throw Systemctl.Failure(text: "systemctl did not answer within \(Examination.limit.components.seconds) s")
        }
        return try result.get()
    }
}
