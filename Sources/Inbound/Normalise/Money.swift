internal import JSONText

/// What an event says of money: `data.money` of its message (posthouse-messages(7), "Money").
///
/// Every member is the platform's own: nothing is converted, added up or rounded here. A member that cannot be read
/// counts as absent.
struct Money: Hashable, Sendable {
    /// What was charged, or given back, in `currency`, with the platform's sign.
    var amount: ExactDecimal?
    /// ISO 4217, in upper case.
    var currency: String?
    /// The amount in US dollars, where the platform states it beside the amount.
    var amountUSD: ExactDecimal?
    /// The amount in euros, where the platform states it beside the amount.
    var amountEUR: ExactDecimal?
    /// What the platform says is left of it after the store's commission.
    var proceedsUSD: ExactDecimal?
    /// In `currency`.
    var tax: ExactDecimal?
    /// Whether the event is a refund by its name or its content. An amount below zero is one, too.
    var isRefund = false

    /// The JSON object; nil: nothing is said of money.
    ///
    /// An amount without a currency says nothing, nor does a currency without an amount: they come together or not at
    /// all.
    var json: [UInt8]? {
        var stated = self
        stated.isRefund = isGivenBack
        if currency == nil {
            stated.amount = nil
            stated.tax = nil
        } else if amount == nil, tax == nil {
            stated.currency = nil
        }
        let isAmount = stated.currency != nil || amountUSD != nil || amountEUR != nil || proceedsUSD != nil
        return isAmount || stated.isRefund ? stated.written : nil
    }

    /// Whether it is a refund, or an amount says so.
    var isGivenBack: Bool {
        isRefund || [amount, amountUSD, amountEUR, proceedsUSD].contains { $0?.isNegative == true }
    }

    private var written: [UInt8] {
        JSONWriter.object { json in
            json.member("amount", amount?.text)
            json.member("currency", currency)
            json.member("amount_usd", amountUSD?.text)
            json.member("amount_eur", amountEUR?.text)
            json.member("proceeds_usd", proceedsUSD?.text)
            json.member("tax", tax?.text)
            // Platforms state it as a share of the price, if at all.
            json.key("commission")
            json.null()
            json.member("is_refund", isRefund)
        }
    }
}
