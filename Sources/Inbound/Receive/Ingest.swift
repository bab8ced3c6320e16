package import HTTPServer
package import Ledger
package import Spool
package import Vocabulary

/// `POST /ingest/NAME` for every configured source.
package struct Ingest: IncomingHandler {
    package static let prefix = "/ingest/"

    /// Unicode scalars of an unknown name in the journal.
    private static let shownScalarsMax = 64
    /// Of the names beside it.
    private static let shownSourcesMax = 5

    private let paths: [String: InboundPath]
    /// The names of the first sources, for the journal.
    private let known: String
    private let bodyBytesMax: Int
    private let observe: Observer

    /// - Parameters:
    ///   - stores: has adopted the sources.
    ///   - lookups: what the ledger knows before a store is asked.
    ///   - spooling: for the sources that spool; nil: this daemon has no spool, and they are answered 503.
    ///   - now: this machine's wall clock, for the freshness window of sources that have one.
    package init(
        sources: [Source], stores: StoreClients, lookups: Enricher.Lookups, queue: RecordQueue,
        spooling: SpoolFallback?, bodyBytesMax: Int, now: @escaping @Sendable () -> Timestamp,
        observe: @escaping Observer
    ) {
        self.bodyBytesMax = bodyBytesMax
        self.observe = observe
        let names = sources.map(\.name).sorted().prefix(Self.shownSourcesMax).joined(separator: ", ")
        known = names.isEmpty ? "" : ": \(names)"
        paths = Dictionary(
            firstOf: sources.map { source in
                let path = InboundPath(
                    source: source, adapter: stores.adapter(for: source),
                    enricher: stores.enricher(for: source, lookups: lookups), queue: queue,
                    spooling: source.spooling == .off ? nil : spooling, now: now, observe: observe)
                return (Self.prefix + source.name, path)
            })
    }

    package func admit(_ head: IncomingHead) -> Admission {
        guard paths[head.path] != nil else {
            if head.method == "POST" { observe(.refused(source: "", status: 404, reason: unknown(head.path))) }
            return .refuse(.unknownSource)
        }
        guard head.method == "POST" else { return .refuse(.wrongMethod("POST")) }
        return .accept(
            bodyBytesMax: bodyBytesMax, answerTimeout: Limits.acknowledgementTimeout, timeoutAnswer: .unavailable)
    }

    /// The commonest mistake of a first day is a mistyped URL at the platform.
    private func unknown(_ path: String) -> String {
        let name = path.dropFirst(Self.prefix.count).unicodeScalars
        let shown = String(String.UnicodeScalarView(name.prefix(Self.shownScalarsMax)))
        let rest = name.dropFirst(Self.shownScalarsMax).isEmpty ? "" : "…"
        return "no source is named \"\(shown)\(rest)\"; "
            + "the URL at the platform ends in the name of a [[source]]\(known)"
    }

    package func respond(to request: IncomingRequest, with responder: Responder) {
        guard let path = paths[request.head.path] else { return responder.respond(.unavailable) }
        path.receive(request) { responder.respond($0) }
    }

    /// Whether the source of a webhook in the spool is configured.
    package func serves(_ source: String) -> Bool { paths[Self.prefix + source] != nil }

    /// Records a webhook from the spool; `done` is called once, from any thread.
    package func record(_ webhook: SpooledWebhook, done: @escaping @Sendable (_ isCommitted: Bool) -> Void) {
        guard let path = paths[Self.prefix + webhook.source] else { return done(false) }
        path.record(webhook, done: done)
    }

    package func rejected(_ head: IncomingHead?, status: Int, reason: String) {
        let source = head.flatMap { paths[$0.path]?.source.name }
        guard let source else { return }
        observe(.refused(source: source, status: status, reason: reason))
    }
}
