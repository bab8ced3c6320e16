/// RevenueCat's opt-in signature: `X-RevenueCat-Webhook-Signature`, whose `v1` is made with the endpoint's secret. An
/// unreadable `v1` is refused; schemes of another name belong to a later version.
enum RevenueCatSignature: TimedHexSignature {
    static let signatureHeader = "X-RevenueCat-Webhook-Signature"
    /// More than a rotation needs.
    static let signaturesMax = 8
    /// The HTTP server's limit for a request's head is enough.
    static let headerBytesMax = Int.max
    static let ignoresUnreadable = false
}
