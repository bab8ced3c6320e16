package import HTTPServer
import Vocabulary

/// Answers to sources. Vendors look only at the status; the text is for a person who tries it by hand.
extension HTTPAnswer {
    /// Exactly 200: Purchasely accepts no other code (posthouse-sources(7), "Purchasely").
    static let stored = HTTPAnswer(status: 200)

    /// Nothing is known to be stored: the source retries, and an event that was stored after all is a duplicate then.
    package static let unavailable = HTTPAnswer.text(
        503, "the event could not be stored now; send it again\n",
        headers: [("retry-after", String(Limits.retryAfterUnavailableSeconds))])

    /// Nothing is known yet that proves or refutes the webhook: the source retries.
    static let unverifiable = HTTPAnswer.text(
        503, "the webhook could not be verified now; send it again\n",
        headers: [("retry-after", String(Limits.retryAfterUnavailableSeconds))])

    /// What the event means is not known yet: the source retries.
    static let storeUnavailable = HTTPAnswer.text(
        503, "the store could not be asked about the purchase now; send it again\n",
        headers: [("retry-after", String(Limits.retryAfterUnavailableSeconds))])

    static func unauthentic(_ refusal: Authenticity.Refusal) -> HTTPAnswer { .text(401, "\(refusal)\n") }

    static let unknownSource = HTTPAnswer.text(
        404, "no source is configured under this path; it is /ingest/NAME with the name of a [[source]]\n")

    package static func wrongMethod(_ allowed: String) -> HTTPAnswer {
        .text(405, "only \(allowed) is understood here\n", headers: [("allow", allowed)])
    }
}
