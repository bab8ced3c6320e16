package import Front
import Vocabulary

/// What a source is told. Vendors look at the status alone; the text is for the person who tries it by hand.
extension FrontAnswer {
    /// 200, exactly 200: Purchasely takes no other code (posthouse-sources(7), "Purchasely").
    static let stored = FrontAnswer(status: 200)

    /// Nothing is known to be stored: the source comes again, and what was stored after all is a duplicate then.
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
