/// How a source was answered, for the counts of `posthouse status`.
package struct SourceAnswer: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// 200: the webhook is recorded, now or earlier.
        case stored
        /// 200: the webhook is kept in quarantine.
        case quarantined
        /// Nothing was stored; the HTTP status.
        case refused(Int)
    }

    /// Empty: the request named no source that is configured.
    package let source: String
    package let kind: Kind

    package init(source: String, kind: Kind) {
        self.source = source
        self.kind = kind
    }
}

extension SourceAnswer.Kind {
    /// As the ledger has it: `stored`, `quarantined` or the status.
    package var text: String {
        switch self {
        case .stored: "stored"
        case .quarantined: "quarantined"
        case .refused(let status): String(status)
        }
    }

    package init?(text: String) {
        switch text {
        case "stored": self = .stored
        case "quarantined": self = .quarantined
        default:
            guard let status = Int(text) else { return nil }
            self = .refused(status)
        }
    }

    /// Whether the webhook was authentic and is kept.
    package var isKept: Bool {
        if case .refused = self { false } else { true }
    }
}
