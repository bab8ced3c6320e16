/// A configured receiver: one `[[integration]]`, checked.
package struct Integration: Sendable, Hashable {
    package enum Format: String, Sendable, CaseIterable {
        /// Standard Webhooks payload `{type, timestamp, data}`.
        case standard
        /// The source's own shape and bytes.
        case source
    }

    package enum Order: String, Sendable, CaseIterable {
        /// The next message of a purchase leaves only after the one before it is settled.
        case purchase
        case none
    }

    /// What `include` adds to the payload of `Format.standard`.
    package enum Inclusion: String, Sendable, CaseIterable {
        /// `data.access`: what the holders of the message have (posthouse-messages(7), "Access").
        case access
    }

    /// A key for Standard Webhooks signatures.
    package enum SigningKey: Sendable, Hashable {
        /// `whsec_…`: HMAC-SHA256, identifier `v1`.
        case symmetric(Secret)
        /// `whsk_…`: ed25519, identifier `v1a`. The 32-byte seed gives both halves of the key pair (RFC 8032 §5.1.5).
        case asymmetric(seed: Secret)
    }

    package let name: String
    package let url: EndpointURL
    /// Globs over `type` with `*` and `?`; at least one.
    package let events: [Glob]
    /// Empty: all.
    package let environments: [String]
    /// Names of sources; empty: all.
    package let sources: [String]
    /// `where`; nil: whatever the fields of a message are.
    package let filter: MessageFilter?
    package let format: Format
    /// Empty unless `format` is standard.
    package let include: Set<Inclusion>
    /// All of them sign, so that one can be rotated while both are valid.
    package let signingKeys: [SigningKey]
    /// Sent with every request. Values may be secret.
    package let headers: [HeaderField]
    /// Limits connect, head and body of one attempt together.
    package let timeout: Duration
    package let schedule: RetrySchedule
    /// HTTP statuses after which a retry is useless.
    package let permanentStatuses: Set<Int>
    /// Attempts in progress at once.
    package let concurrency: Int
    /// nil: no limit except the concurrency.
    package let rate: RateLimit?
    package let order: Order
    /// `confirm`: the longest time for which the acknowledgement of a change of access waits until this integration has
    /// accepted the messages of the change; nil: it does not wait.
    package let confirmTimeout: Duration?
    package let allowsPrivateAddresses: Bool
    /// PEM bundle of the CAs to trust; absent: the system's.
    package let certificateAuthorityFile: String?

    package init(
        name: String, url: EndpointURL, events: [Glob], environments: [String], sources: [String],
        filter: MessageFilter? = nil, format: Format, include: Set<Inclusion> = [], signingKeys: [SigningKey],
        headers: [HeaderField], timeout: Duration, schedule: RetrySchedule, permanentStatuses: Set<Int>,
        concurrency: Int, rate: RateLimit? = nil, order: Order, confirmTimeout: Duration? = nil,
        allowsPrivateAddresses: Bool, certificateAuthorityFile: String?
    ) {
        self.name = name
        self.url = url
        self.events = events
        self.environments = environments
        self.sources = sources
        self.filter = filter
        self.format = format
        self.include = include
        self.signingKeys = signingKeys
        self.headers = headers
        self.timeout = timeout
        self.schedule = schedule
        self.permanentStatuses = permanentStatuses
        self.concurrency = concurrency
        self.rate = rate
        self.order = order
        self.confirmTimeout = confirmTimeout
        self.allowsPrivateAddresses = allowsPrivateAddresses
        self.certificateAuthorityFile = certificateAuthorityFile
    }

    /// Prefix of the types of relay messages, those of Posthouse itself.
    private static let relayPrefix = "posthouse."
    /// Prefix of those that are about somebody's purchase.
    private static let accessPrefix = "posthouse.access."

    /// Whether a message of this type, source and environment goes here, if `admits` lets it through. Relay messages
    /// go only to an integration with a glob that begins with their prefix: the `*` of a receiver of purchases does not
    /// match them. Those about a purchase have a prefix of their own, and are of the purchase's source and environment.
    package func selects(type: String, source: String, environment: String) -> Bool {
        let isAboutPurchases = !type.hasPrefix(Self.relayPrefix) || type.hasPrefix(Self.accessPrefix)
        if isAboutPurchases, !isOf(source, environment) { return false }
        return names(type: type)
    }

    /// Whether its globs select the type, whatever the source and the environment.
    package func names(type: String) -> Bool {
        let prefix = [Self.accessPrefix, Self.relayPrefix].first { type.hasPrefix($0) } ?? ""
        return events.contains { $0.pattern.hasPrefix(prefix) && $0.matches(type) }
    }

    /// Whether `where` lets a message of this type through. It does not concern relay messages, whose fields are
    /// those of no purchase.
    /// - Parameter text: as for `MessageFilter.matches`.
    package func admits<Failure: Error>(
        type: String, _ text: (MessageField) throws(Failure) -> String?
    ) throws(Failure) -> Bool {
        guard let filter, !type.hasPrefix(Self.relayPrefix) else { return true }
        return try filter.matches(text)
    }

    /// Whether the relay sends this header itself, so that `headers` may not contain it. `name` in lower case.
    package static func isReserved(header name: String) -> Bool {
        HeaderField.isFraming(name) || name == "content-type" || name.hasPrefix("webhook-")
    }

    private func isOf(_ source: String, _ environment: String) -> Bool {
        (sources.isEmpty || sources.contains(source)) && (environments.isEmpty || environments.contains(environment))
    }
}

/// The gaps between attempts, and when to stop.
package struct RetrySchedule: Sendable, Hashable {
    /// Gap k follows attempt k: n gaps, n + 1 attempts.
    package let gaps: [Duration]
    /// Each gap is spread by up to this share to both sides, 0…1.
    package let jitter: Double
    /// From the message's creation, outages included; nil: no deadline.
    package let giveUpAfter: Duration?

    package init(gaps: [Duration], jitter: Double, giveUpAfter: Duration?) {
        self.gaps = gaps
        self.jitter = jitter
        self.giveUpAfter = giveUpAfter
    }

    /// Gaps of 5 s, 5 m, 30 m, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h between attempts (posthouse-messages(7), "Retries").
    package static let defaultGaps: [Duration] = [
        .seconds(5), .seconds(300), .seconds(1_800), .seconds(7_200), .seconds(18_000), .seconds(36_000),
        .seconds(50_400), .seconds(72_000), .seconds(86_400),
    ]
}

/// A pattern in which `*` matches any run of characters, `?` one (a Unicode scalar), and all else itself.
package struct Glob: Sendable, Hashable {
    package let pattern: String

    package init(_ pattern: String) { self.pattern = pattern }

    /// Linear in pattern × text at worst, because only the last star is remembered and nothing recurses.
    package func matches(_ text: String) -> Bool {
        let pattern = Array(pattern.utf8)
        let text = Array(text.utf8)
        var p = 0
        var t = 0
        var star: (pattern: Int, text: Int)?
        while t < text.count {
            if p < pattern.count, pattern[p] == UInt8(ascii: "*") {
                star = (p, t)
                p += 1
            } else if p < pattern.count, pattern[p] == text[t] || pattern[p] == UInt8(ascii: "?") {
                // The bytes of one scalar after its first are 10xxxxxx.
                if pattern[p] == UInt8(ascii: "?") {
                    while t + 1 < text.count, text[t + 1] & 0xC0 == 0x80 { t += 1 }
                }
                p += 1
                t += 1
            } else if let last = star {
                star = (last.pattern, last.text + 1)
                p = last.pattern + 1
                t = last.text + 1
            } else {
                return false
            }
        }
        return pattern[p...].allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
