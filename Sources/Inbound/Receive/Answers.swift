package import Front
import Vocabulary

/// Answers to sources. Vendors look only at the status; the text is for a person who tries it by hand.
extension FrontAnswer {
    /// Exactly 200: Purchasely accepts no other code (posthouse-sources(7), "Purchasely").
    static let stored = FrontAnswer(status: 200)

    /// Nothing is known to be stored: the source retries, and an event that was stored after all is a duplicate then.
    package static let unavailable = FrontAnswer.text(
        503, "the event could not be stored now; send it again\n",
        headers: [("retry-after", String(Limits.retryAfterUnavailableSeconds))])

    static func unauthentic(_ refusal: Authenticity.Refusal) -> FrontAnswer { .text(401, "\(refusal)\n") }

    static let unknownSource = FrontAnswer.text(
        404, "no source is configured under this path; it is /ingest/NAME with the name of a [[source]]\n")

    package static func wrongMethod(_ allowed: String) -> FrontAnswer {
        .text(405, "only \(allowed) is understood here\n", headers: [("allow", allowed)])
    }
}
