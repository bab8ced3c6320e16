/// Stripe's signature (docs.stripe.com/webhooks, "Verify webhook signatures manually"): `Stripe-Signature`.
///
/// The key is the endpoint's whole secret as text, `whsec_` included: nothing of it is decoded, unlike in Standard
/// Webhooks, which has the same prefix. While a secret is rolled, there is one `v1` for each valid secret. Test mode
/// adds the scheme `v0`, which is ignored.
enum StripeSignature: TimedHexSignature {
    static let signatureHeader = "Stripe-Signature"
    /// More than a rotation needs; those that are ignored count, too.
    static let signaturesMax = 16
    /// `signaturesMax` signatures fit twice.
    static let headerBytesMax = 2_560
    static let ignoresUnreadable = true
}
