/// Amounts of one object of Stripe: they count the smallest unit of its currency (docs.stripe.com/currencies, "Minor
/// units in API amounts").
struct StripeMoney {
    private let object: BodyFields
    private let currency: String
    private let minorDigits: Int

    /// "Zero-decimal currencies" of that page. Without UGX and ISK: its "Special cases" have two, which are always 00.
    private static let withoutMinorUnit: Set<String> = [
        "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF",
    ]
    /// "Three-decimal currencies" of that page.
    private static let inThousandths: Set<String> = ["BHD", "JOD", "KWD", "OMR", "TND"]

    /// Nil if the object names no currency: without one its amounts have no point.
    private init?(_ object: BodyFields) {
        guard let currency = object.currency("currency") else { return nil }
        self.object = object
        self.currency = currency
        minorDigits = Self.minorDigits(of: currency)
    }

    /// How many digits of an amount stand after the point.
    static func minorDigits(of currency: String) -> Int {
        if withoutMinorUnit.contains(currency) { return 0 }
        return inThousandths.contains(currency) ? 3 : 2
    }

    /// Of an invoice that was paid. Several taxes are not added up.
    static func ofInvoice(_ invoice: BodyFields) -> Money? {
        guard let money = StripeMoney(invoice) else { return nil }
        // Since API version 2025-03-31.basil a list, before the sum of all.
        let taxes = invoice.objects("total_taxes")
        let only = taxes.count == 1 ? taxes.first : nil
        return Money(
            amount: money.amount("amount_paid"), currency: money.currency,
            tax: money.amount("tax") ?? only.flatMap { money.amount("amount", in: $0) })
    }

    /// Of a checkout session that was paid.
    static func ofSession(_ session: BodyFields) -> Money? {
        guard let money = StripeMoney(session) else { return nil }
        return Money(
            amount: money.amount("amount_total"), currency: money.currency,
            tax: session.object("total_details").flatMap { money.amount("amount_tax", in: $0) })
    }

    /// Of a charge that was refunded: all that was given back of it so far.
    static func ofRefundedCharge(_ charge: BodyFields) -> Money { refund("amount_refunded", of: charge) }

    /// Of one refund, once the money was given back.
    static func ofRefund(_ refund: BodyFields) -> Money? {
        guard (try? refund.text("object")) == "refund", (try? refund.text("status")) == "succeeded" else { return nil }
        return Self.refund("amount", of: refund)
    }

    private static func refund(_ key: String, of object: BodyFields) -> Money {
        let money = StripeMoney(object)
        return Money(amount: money?.amount(key), currency: money?.currency, isRefund: true)
    }

    private func amount(_ key: String) -> ExactDecimal? { amount(key, in: object) }

    private func amount(_ key: String, in fields: BodyFields) -> ExactDecimal? {
        fields.decimal(key, minorDigits: minorDigits)
    }
}
