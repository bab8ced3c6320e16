internal import Ledger
internal import Vocabulary

/// A vendor's signature, and the keys of a source's secrets: made for its first webhook, kept for those that follow.
/// One for each source: what it remembers is not shared.
package struct KeyedSignature: Sendable {
    private let form: any WebhookSignature.Type
    private let kept = Replaceable<(secrets: [Secret], keys: [KeyedSHA256])>(([], []))

    init(_ form: any WebhookSignature.Type) { self.form = form }

    func headers(body: [UInt8], unixSeconds: Int64, secret: Secret) -> [(name: String, value: String)] {
        form.headers(body: body, unixSeconds: unixSeconds, secret: secret)
    }

    func authenticate(header: (String) -> String?, body: [UInt8], source: Source, now: Timestamp) -> Authenticity {
        form.authenticate(header: header, body: body, source: source, keys: keys(of: source.secrets), now: now)
    }

    private func keys(of secrets: [Secret]) -> [KeyedSHA256] {
        let known = kept.current
        // A source has the same array each time, so that no byte of it is compared.
        if known.secrets == secrets { return known.keys }
        let keys = secrets.flatMap { form.keys(of: $0) }
        kept.replace((secrets, keys))
        return keys
    }
}
