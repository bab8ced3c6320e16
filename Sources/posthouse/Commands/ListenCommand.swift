import ArgumentParser
import Configuration
import HTTPServer
import Glibc
import JSONText
import Linux
import NIOCore
import NIOPosix
import Outbound
import Vocabulary

struct ListenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "listen", abstract: "A receiver to try with: verifies signatures and prints what came.",
        discussion: """
            One line a delivery. Answers 204 when the signature holds, 401 when it does not, and fails on purpose on \
            request. Example, a receiver that is slow, and down for every fifth request:
              posthouse listen --secret-file backend-secret --fail 503 --delay 2s --share 0.2

            An integration that sends to this machine or a private network needs allow_private = true. One that sends \
            here is printed at the start, ready to paste into posthouse.toml. posthouse test NAME then sends it a \
            message.
            """)

    @Option(help: "Where to listen.") var listen = "127.0.0.1:9400"
    @Option(
        help: "A file with the integration's secret, whsec_… or whsk_…, or with the public key of the latter, whpk_….",
        completion: .file())
    var secretFile: String
    @Flag(help: "Print each delivery as one JSON object.") var json = false
    @Option(help: "Answer this status, 300 to 599, to requests whose signature holds.") var fail: Int?
    @Option(help: "Delay those answers by: 250ms, 5s, up to 10m.") var delay: String?
    @Option(help: "Share of requests that --fail and --delay apply to; 0.2 is every fifth; default: all.")
    var share: Double?

    func validate() throws {
        _ = try address()
        if let fail, !DeliberateFailures.statuses.contains(fail) {
            throw ValidationError("--fail \(fail) is not a failure; it is a status from 300 to 599")
        }
        if let delay, wait == nil {
            throw ValidationError("--delay \(delay) is not a duration from 1ms to 10m; write 250ms, 5s or 2m")
        }
        if let share {
            guard share > 0, share <= 1 else {
                throw ValidationError("--share \(share) is not a share; it lies above 0, up to 1")
            }
            guard fail != nil || delay != nil else {
                throw ValidationError("--share says how many requests --fail or --delay is for; give one of them")
            }
        }
    }

    func run() async throws {
        signal(SIGPIPE, SIG_IGN)
        try await Terminal.reporting {
            let signals = Signals.stream([SIGTERM, SIGINT])
            let receiver = ListenReceiver(
                verifier: try verifier(), json: json,
                deliberateFailures: DeliberateFailures(status: fail, delay: wait, share: share ?? 1))
            let address = try address()
            let server = try await HTTPListener.start(
                listener: .address(address), handler: receiver, group: NIOSingletons.posixEventLoopGroup)
            Terminal.printToStandardError("listening on \(server.boundAddress)")
            if let table = integrationTable(server.boundAddress) { Terminal.printToStandardError(table) }
            _ = await signals.first { _ in true }
            await server.drain(upTo: .seconds(2))
        }
    }

    private func address() throws -> ListenAddress {
        do throws(ListenMistake) {
            return try ListenAddress(parsing: listen)
        } catch {
            throw ValidationError("--listen \(error)")
        }
    }

    /// The table of an integration that sends here, as posthouse.toml has it, below a line that says so; nil where it
    /// does not follow from the address.
    /// - Parameter address: where the listener is, with the port that it got.
    private func integrationTable(_ address: String) -> String? {
        guard let bound = try? ListenAddress(parsing: address), bound.isInternal else { return nil }
        return """
            an integration of posthouse.toml that sends here:
            [[integration]]
            name = "backend"
            url = "http://\(bound.text)/"
            events = ["*"]
            \(secretLine)
            allow_private = true
            """
    }

    /// The integration's secret, where this file has it: from a public key it cannot be had.
    private var secretLine: String {
        let isPublic = (try? SigningKeyText.readPublic(SecretFile.read(secretFile))) != nil
        guard !isPublic else { return "# secret: name the whsk_ key of this public key" }
        // Relative paths of the configuration count from another directory.
        let path = FileStatus.realPath(secretFile) ?? secretFile
        let credentials = SecretLocation.usualDirectory + "/"
        let (kind, value) =
            path.hasPrefix(credentials) ? ("credential", String(path.dropFirst(credentials.count))) : ("file", path)
        return "secret = { \(kind) = \(String(decoding: JSONWriter.literal(value), as: UTF8.self)) }"
    }

    private var wait: Duration? {
        delay.flatMap(DurationText.read).flatMap { DeliberateFailures.delays.contains($0) ? $0 : nil }
    }

    private func verifier() throws -> StandardWebhooksVerifier {
        let secret = try SecretFile.read(secretFile)
        var keys: [Integration.SigningKey] = []
        var publicKeys: [[UInt8]] = []
        do throws(SigningKeyText.Failure) {
            if let key = try SigningKeyText.readPublic(secret) {
                publicKeys = [key]
            } else {
                keys = [try SigningKeyText.read(secret)]
            }
        } catch {
            let text = error == .unmarked ? "must begin with `whsec_`, `whsk_` or `whpk_`" : error.text
            throw OperatorError("the secret in \(secretFile) \(text)")
        }
        return try StandardWebhooksVerifier(keys: keys, publicKeys: publicKeys, tolerance: .seconds(300))
    }
}
