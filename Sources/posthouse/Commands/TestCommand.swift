import ArgumentParser
import Configuration
import HTTPClient
import JSONText
import Ledger
import NIOCore
import NIOPosix
import Observing
import Outbound
import Vocabulary

struct TestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test", abstract: "Send an integration one signed message, and show its answer.",
        discussion: """
            The first thing after configuring one. The message has the type posthouse.test and is sent exactly as a \
            delivery is, whatever `events` say, but past queue and breaker: no database is needed, nothing is stored, \
            nothing is retried, and a paused or failing integration is tested, too. Exits 0 if it was accepted (2xx).

            The secrets of the integration must be readable here. Those that systemd hands to the daemon are, for root \
            and while it runs.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Argument(help: "The name of the integration.") var name: String?
    @Flag(help: "Test every configured integration.") var all = false

    func validate() throws {
        guard (name != nil) != all else {
            throw ValidationError("say what to test: the name of an integration, or --all")
        }
    }

    func run() async throws {
        let configuration = try file.load()
        try await Terminal.reporting {
            let targets = try targets(in: configuration)
            let plans = try Self.plans(of: targets)
            let names = NameResolver()
            let running = targets.compactMap { integration in
                plans[integration.name].map { Running(integration, plan: $0, names.resolver) }
            }
            var results: [TestResult] = []
            for one in running {
                let result = await one.result()
                if !output.json { Terminal.print(result.line) }
                results.append(result)
            }
            names.close()
            if output.json {
                write(results)
            } else {
                Terminal.printToStandardError("sent past queue and breaker: nothing is stored, nothing is retried")
            }
            guard results.allSatisfy(\.isAccepted) else { throw ExitCode.failure }
        }
    }

    private func targets(in configuration: Configuration) throws -> [Integration] {
        let known = configuration.integrations
        guard !known.isEmpty else {
            throw OperatorError("\(file.path) has no [[integration]] to test", code: Exit.configuration)
        }
        let targets = known.filter { all || $0.name == name }
        if let name, targets.isEmpty { throw LedgerCommand.unknownIntegration(name, known: known.map(\.name)) }
        let incomplete = targets.map(\.name).filter(configuration.incompleteIntegrations.contains)
        guard incomplete.isEmpty else {
            throw OperatorError.unreadableSecret(of: incomplete.joined(separator: ", "))
        }
        return targets
    }

    private static func plans(of integrations: [Integration]) throws -> [String: LanePlan] {
        do {
            return try LanePlan.make(integrations, version: Posthouse.version)
        } catch let error as EndpointTrust.Unusable {
            throw OperatorError(error.reason, code: Exit.configuration)
        } catch let error as UnsendableRequest {
            throw OperatorError(error.reason, code: Exit.configuration)
        } catch let error as SigningFailure {
            throw OperatorError(error.explanation, code: Exit.configuration)
        }
    }

    private func write(_ results: [TestResult]) {
        Terminal.print { json in
            if all {
                json.member("integrations", objects: results) { $0.write(into: &$1) }
            } else {
                for result in results { result.write(into: &json) }
            }
        }
    }
}

/// A test under way: those of several integrations run side by side.
private struct Running {
    private let integration: Integration
    private let message: Message
    private let task: Task<TestAttempt, Never>

    init(_ integration: Integration, plan: LanePlan, _ resolver: AddressResolver) {
        let message = TestMessage.make(
            for: integration.name, version: Posthouse.version, key: .random(), at: ThisProcess.now())
        let loop = NIOSingletons.posixEventLoopGroup.next()
        self.integration = integration
        self.message = message
        task = Task {
            await TestAttempt.make(message, to: integration, by: plan, resolver: resolver, on: loop)
        }
    }

    func result() async -> TestResult {
        TestResult(integration: integration, message: message.id, attempt: await task.value, at: ThisProcess.now())
    }
}

/// How a test ended, for a person and for a program.
private struct TestResult {
    private let integration: Integration
    /// `webhook-id`.
    private let message: String
    private let attempt: TestAttempt
    /// What would follow for a delivery.
    private let decision: DeliveryDecision
    private let now: Timestamp

    init(integration: Integration, message: String, attempt: TestAttempt, at now: Timestamp) {
        self.integration = integration
        self.message = message
        self.attempt = attempt
        self.now = now
        decision = attempt.decision(for: integration, now: now)
    }

    var isAccepted: Bool { decision == .accepted }

    /// One line; what the receiver answered is made harmless.
    var line: String {
        let what = "\(integration.url.shown), \(message)"
        let latency = "\(attempt.latencyMilliseconds) ms"
        guard let failure = decision.failure else {
            return "\(integration.name) accepted it: answered \(answer?.status ?? 0) in \(latency) (\(what))"
        }
        let excerpt = answerLine.map { ": \($0)" } ?? ""
        return PlainText.harmless(
            "\(integration.name) did not accept it: \(failure)\(excerpt); \(consequence) (\(latency), \(what))")
    }

    func write(into json: inout JSONWriter) {
        json.member("integration", integration.name)
        json.member("url", integration.url.shown)
        json.member("message", message)
        json.member("http_status", answer?.status)
        json.member("latency_ms", attempt.latencyMilliseconds)
        json.member("outcome", decision.verdict(now: now).outcome.rawValue)
        json.member("failure", decision.failure.map { DeliveryDecision.withExcerpt($0, of: attempt.result) })
    }

    private var answer: EndpointAnswer? { try? attempt.result.get() }

    /// The first line of the answer that is not empty.
    private var answerLine: Substring? {
        answer.flatMap { String(decoding: $0.body, as: UTF8.self).split(whereSeparator: \.isNewline).first }
    }

    private var consequence: String {
        switch decision {
        case .accepted: ""
        case .retry(let at, _), .postpone(let at, _):
            "a delivery would be tried again after "
                + DurationText.write(.milliseconds(at.milliseconds - now.milliseconds))
        case .dead: "a delivery would be a dead letter"
        case .pauseIntegration:
            "a delivery would wait and the integration be paused, until posthouse resume \(integration.name)"
        }
    }
}
