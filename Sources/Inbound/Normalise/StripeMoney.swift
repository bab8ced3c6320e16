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

    /// Of an invoice that was paid. Several taxes are not added up, and the tax of what was not all paid is unknown.
    static func ofInvoice(_ invoice: BodyFields) -> Money? {
        guard let money = StripeMoney(invoice) else { return nil }
        // Since API version 2025-03-31.basil a list, before the sum of all.
        let taxes = invoice.objects("total_taxes")
        let only = taxes.count == 1 ? taxes.first : nil
        let paid = money.amount("amount_paid")
        let tax = money.amount("tax") ?? only.flatMap { money.amount("amount", in: $0) }
        return Money(amount: paid, currency: money.currency, tax: paid == money.amount("total") ? tax : nil)
    }

    /// Of a checkout session that was paid.
    static func ofSession(_ session: BodyFields) -> Money? {
        guard let money = StripeMoney(session) else { return nil }
        return Money(
            amount: money.amount("amount_total"), currency: money.currency,
            tax: session.object("total_details").flatMap { money.amount("amount_tax", in: $0) })
    }

    /// Of a charge that was refunded: what was given back now. It states what was given back so far, and in `previous`
    /// what that was before.
    static func ofRefund(of charge: BodyFields, previous: BodyFields?) -> Money {
        let money = StripeMoney(charge)
        let key = "amount_refunded"
        guard let money, let soFar = count(key, in: charge), let before = previous.flatMap({ count(key, in: $0) }),
            before >= 0, soFar >= before
        else { return Money(isRefund: true) }
        let now = Array(String(soFar - before).utf8)
        return Money(
            amount: ExactDecimal(now[...], minorDigits: money.minorDigits), currency: money.currency, isRefund: true)
    }

    /// An amount in the smallest unit.
    private static func count(_ key: String, in fields: BodyFields) -> Int64? {
        fields.decimal(key).flatMap { Int64($0.text) }
    }

    private func amount(_ key: String) -> ExactDecimal? { amount(key, in: object) }

    private func amount(_ key: String, in fields: BodyFields) -> ExactDecimal? {
        fields.decimal(key, minorDigits: minorDigits)
    }
}
