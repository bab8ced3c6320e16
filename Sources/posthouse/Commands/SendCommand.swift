import ArgumentParser
import Configuration
import Glibc
import HTTPClient
import Inbound
import NIOCore
import NIOPosix
import Observing
import Vocabulary

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Post a signed sample webhook, as the source itself would.",
        discussion: """
            Exits 0 when it was answered 200. Example, a purchase by an anonymous user:
              posthouse send --url http://127.0.0.1:8080/ingest/purchasely --secret-file secret \\
                --event ACTIVATE --anonymous a1 --transaction 1000000123 --purchase subs_1

            In a transfer one holder gives a purchase and another gets it. --user (or --anonymous) names the one that \
            the event is about, --counterpart-user (or --counterpart-anonymous) the other side. By --kind and --event:

            \(transferHelp)

            The answer to such an event says who gives and who gets.

            Apple has no secret: it signs with certificates. --chain DIR signs with those in DIR, which are made if \
            there are none, and prints the line for a source that accepts them. It is for tests: whoever has the files \
            can grant purchases there.

            A webhook of google-play has a token in its Authorization header that only Google can sign, so none can be \
            sent: --print prints the body alone. To try a source, send a test notification from the Play Console.
            """)

    /// One block for each kind of source, by its samples.
    private static var transferHelp: String {
        SourceKind.allCases.map { kind in
            let adapter = SourceAdapters.adapter(for: kind)
            let events = adapter.sampleTransfers.map { transfer in
                "    \(transfer.eventName): \(transfer.role.help)\n"
            }
            return "  \(kind.rawValue)\n" + events.joined() + "    \(adapter.sampleTransferNote)"
        }.joined(separator: "\n")
    }

    @Option(help: "The URL: http(s)://HOST/ingest/NAME; with --print not needed.") var url: String?
    @Option(help: "A file with the source's secret; without it the webhook is not signed.", completion: .file())
    var secretFile: String?
    @Option(
        help: "For kinds that sign with certificates: their directory; they are made if there are none.",
        completion: .directory)
    var chain: String?
    @Option(help: "With --chain: the bundle id of the app; default: com.example.app.") var bundleID: String?
    @Option(help: "The kind of source to imitate.", completion: NameCompletion.kinds)
    var kind: String = SourceKind.usual.rawValue
    @Option(
        help: "How it proves itself: signature or token; default: as the kind usually does.",
        completion: NameCompletion.authentications)
    var auth: String?
    @Option(help: "The platform's name of the event; any name is sent.", completion: NameCompletion.events)
    var event: String
    @Option(help: "The user whom the event is about.") var user: String?
    @Option(help: "The anonymous user whom it is about.") var anonymous: String?
    @Option(help: "For transfer events: the user on the other side, as above.") var counterpartUser: String?
    @Option(help: "For transfer events: the anonymous user on the other side, as above.")
    var counterpartAnonymous: String?
    @Option(help: "The store_transaction_id; default: generated.") var transaction: String?
    @Option(help: "The platform's id of the purchase (subs_…, otp_…); default: generated.") var purchase: String?
    @Option(help: "Event time in milliseconds since 1970; default: now.") var atMs: Int64?
    @Option(help: "The platform's event id; default: generated; \"none\": no id, as older versions.")
    var eventID: String?
    @Option(help: "The environment.") var environment = "PRODUCTION"
    @Flag(help: "Print the body instead of sending it.") var print = false

    func validate() throws {
        guard (user == nil) != (anonymous == nil) else {
            throw ValidationError("name the holder: exactly one of --user ID and --anonymous ID")
        }
        guard counterpartUser == nil || counterpartAnonymous == nil else {
            throw ValidationError("only one of --counterpart-user and --counterpart-anonymous")
        }
        guard SourceKind.allCases.contains(where: { $0.rawValue == kind }) else {
            let known = SourceKind.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--kind \(kind) is not known; there are: \(known)")
        }
        let possible = speaker.traits.authentications.filter { $0 != .none }.map(\.rawValue)
        if let auth, !possible.contains(auth) {
            throw ValidationError("--auth \(auth): a source of kind \(kind) has \(possible.joined(separator: ", "))")
        }
        try validateProof()
        if !print { _ = try endpoint() }
        if let atMs, !Timestamp.writable.contains(Timestamp(milliseconds: atMs)) {
            throw ValidationError("--at-ms lies outside the years 0 to 9999")
        }
    }

    private func validateProof() throws {
        let signs = speaker.traits.signsWithCertificates
        if secretFile != nil, !speaker.traits.hasSecrets {
            let instead = signs ? "give --chain instead" : Self.unsigned
            throw ValidationError("--secret-file: a source of kind \(kind) has no secret; \(instead)")
        }
        if !canSign, !print { throw ValidationError("--kind \(kind): \(Self.unsigned); --print prints the body alone") }
        if chain != nil, !signs {
            throw ValidationError("--chain: a source of kind \(kind) does not sign with certificates")
        }
        if bundleID != nil, chain == nil { throw ValidationError("--bundle-id goes with --chain") }
        if chain == nil, signs, !print {
            throw ValidationError(
                "--kind \(kind) needs --chain DIR: the certificates, which are made if there are none")
        }
    }

    private func endpoint() throws -> EndpointURL {
        guard let url else {
            throw ValidationError("say where to send it: --url http(s)://HOST/ingest/NAME; or print the body: --print")
        }
        do throws(EndpointError) {
            return try EndpointText.read(url)
        } catch {
            // Without the URL: what is wrong in it may be a password.
            throw ValidationError("--url \(error.text)")
        }
    }

    private static let unsigned = "only the platform can sign the token of its webhooks"

    /// Whether there is anything by which a webhook of the kind can be proven here.
    private var canSign: Bool { speaker.traits.hasSecrets || speaker.traits.signsWithCertificates }

    func run() async throws {
        try await Terminal.reporting {
            let adapter = SourceAdapters.adapter(for: speaker)
            let body = try sample(adapter)
            if print {
                // Standard output is the body's.
                if !canSign { Terminal.printToStandardError("the body alone, without a proof: \(Self.unsigned)") }
                return Terminal.print(String(decoding: body, as: UTF8.self))
            }
            var headers: [(String, String)] = []
            if let secretFile {
                let secret = try SecretFile.read(secretFile)
                let now = ThisProcess.now().milliseconds / 1_000
                let authentication =
                    auth.flatMap { Source.Authentication(rawValue: $0) } ?? speaker.traits.authentications[0]
                headers = adapter.signatureHeaders(
                    body: body, unixSeconds: now, authentication: authentication, secret: secret
                ).map { ($0.name, $0.value) }
            }
            let transfer = adapter.statedTransfer(
                in: body, header: { name in headers.first { $0.0.lowercased() == name.lowercased() }?.1 },
                kind: speaker)
            try await post(body, headers, remark: transfer.map { " (\($0.text))" } ?? "")
        }
    }

    private func sample(_ adapter: any SourceAdapter) throws -> [UInt8] {
        guard let chain else { return adapter.sample(request) }
        let signing = try SampleChain(in: chain)
        // Standard output is the body's with --print.
        Terminal.printToStandardError(
            "\(signing.isNew ? "made" : "found") the certificates in \(chain): \(signing.roots)")
        return try adapter.signedSample(request, with: signing.chain, bundleID: bundleID)
    }

    private var speaker: SourceKind { SourceKind(rawValue: kind) ?? .usual }

    private var request: SampleRequest {
        let now = ThisProcess.now()
        let counterpart = counterpartUser.map { Holder.user($0) } ?? counterpartAnonymous.map { .anonymous($0) }
        return SampleRequest(
            eventName: event, holder: user.map { .user($0) } ?? .anonymous(anonymous ?? ""), counterpart: counterpart,
            storeTransactionID: transaction ?? "2000000\(now.milliseconds % 1_000_000_000)",
            purchaseID: purchase ?? "subs_\(now.milliseconds)",
            occurredAt: atMs.map { Timestamp(milliseconds: $0) } ?? now,
            eventID: eventID == "none" ? nil : eventID ?? Identifier.random().uuid4, environment: environment)
    }

    private func post(_ body: [UInt8], _ headers: [(String, String)], remark: String) async throws {
        let endpoint = try endpoint()
        let head = try RequestHead(.post, endpoint, userAgent: "posthouse/\(Posthouse.version)")
        let trust = endpoint.isTLS ? try EndpointTrust.system() : try EndpointTrust.nobody()
        let loop = NIOSingletons.posixEventLoopGroup.next()
        let promise = loop.makePromise(of: EndpointAnswer.self)
        loop.execute {
            let client = EndpointClient(
                endpoint: endpoint, allowsPrivateAddresses: true, trust: trust, resolver: NameResolver().resolver,
                connectionsMax: 1, eventLoop: loop)
            let request = EndpointRequest(
                head: head, headers: headers, body: [body], timeout: Limits.attemptTimeout,
                answerBytesMax: Limits.responseBodyBytesMax, keptBytesMax: Limits.responseExcerptBytesMax)
            client.send(request) { result in
                promise.completeWith(result.mapError { $0 as any Error })
                client.close()
            }
        }
        do {
            let answer = try await promise.futureResult.get()
            let text = String(decoding: answer.body, as: UTF8.self).split(separator: "\n").first ?? ""
            guard answer.status == 200 else {
                let proof = chain == nil ? "--secret-file, --kind and --auth" : "--chain and --bundle-id"
                let hint = answer.status == 401 ? "; are \(proof) those of the source?" : ""
                throw OperatorError("\(event) was answered \(answer.status): \(text)\(hint)")
            }
            Terminal.print(PlainText.harmless("\(event) was answered 200\(remark)"))
        } catch let failure as RequestFailure {
            throw OperatorError("\(endpoint.shown): \(failure.explanation)", code: Exit.unavailable)
        }
    }
}

extension SampleTransfer.Role {
    fileprivate var help: String {
        switch self {
        case .gives: "--user gives, --counterpart-user gets"
        case .gets: "--user gets, --counterpart-user gives"
        case .logsIn: "the anonymous one gives, the user gets (with merge = true)"
        }
    }
}

extension StatedTransfer {
    /// `user:ann gives, user:bob gets`; a side that the event does not name is left out.
    fileprivate var text: String {
        let sides = givers.map { "\($0.storageKey) gives" } + (receiver.map { ["\($0.storageKey) gets"] } ?? [])
        return sides.joined(separator: ", ") + (needsMerge ? ", where the source has merge = true" : "")
    }
}
