internal import JSONText
internal import Vocabulary

// `POST /v1/eligibility`: `{"receipt": {…}, "group": "…", "offer": "…"}`. The receipt is the App Store's answer to a
// server that has a receipt verified (Apple, "App Store Receipts": `responseBody.Latest_receipt_info` and
// `responseBody.Pending_renewal_info`), passed on unchanged.

/// Limits of a receipt.
enum ReceiptLimits {
    /// Transactions of one receipt, and also its pending renewals.
    static let transactionsMax = 10_000
}

/// An invalid member of a request. It never quotes a value, because values are personal data.
struct ReceiptFault: Error, Sendable, Hashable, CustomStringConvertible {
    /// Path from the top of the body: `receipt.latest_receipt_info[3].product_id`; empty for the body itself.
    let path: String
    /// What is wrong; reads as a continuation of the path.
    let problem: String

    var description: String { path.isEmpty ? "the body \(problem)" : "\(path) \(problem)" }
}

/// A request about a receipt.
struct ReceiptReading: Sendable {
    struct Receipt: Sendable {
        let transactions: [StoreTransaction]
        let renewals: [PendingRenewal]
    }

    let group: String
    let offer: Offer
    /// A failure concerns only the receipt: the request is valid, and its answer is UNKNOWN.
    let receipt: Result<Receipt, ReceiptFault>

    /// - Throws: if the request itself cannot be understood: no strict JSON object (with the offset), or `group`,
    ///   `offer` or `receipt` missing or of the wrong type.
    static func read(_ body: [UInt8]) throws(ReceiptFault) -> ReceiptReading {
        let top: JSONObject
        do {
            top = try JSONScan.topObject(body, depthMax: Limits.jsonDepthMax)
        } catch {
            throw ReceiptFault(path: "", problem: "is not one strict JSON object: \(error)")
        }
        let group = try word("group", of: top)
        guard group.utf8.count <= Limits.identifierBytesMax else {
            throw ReceiptFault(path: "group", problem: "is longer than \(Limits.identifierBytesMax) bytes")
        }
        guard let offer = Offer(rawValue: try word("offer", of: top)) else {
            throw ReceiptFault(path: "offer", problem: "is neither \"introductory\" nor \"promotional\"")
        }
        guard let raw = top.raw("receipt") else { throw ReceiptFault(path: "receipt", problem: "is missing") }
        guard raw.first == UInt8(ascii: "{"), let object = try? top.object("receipt") else {
            throw ReceiptFault(path: "receipt", problem: "is not an object")
        }
        return ReceiptReading(group: group, offer: offer, receipt: receipt(object))
    }

    /// Decides the request.
    /// - Parameter products: the products configured for the group; empty: the group is not configured.
    func decide(products: Set<String>, now: Timestamp) -> Eligibility {
        switch receipt {
        case .success(let receipt):
            Eligibility.decide(
                EligibilityQuestion(group: group, products: products, offer: offer),
                transactions: receipt.transactions, renewals: receipt.renewals, now: now)
        case .failure(let fault): Eligibility(unreadable: fault)
        }
    }

    private static func word(_ key: String, of top: JSONObject) throws(ReceiptFault) -> String {
        guard top.rawRange(key) != nil else { throw ReceiptFault(path: key, problem: "is missing") }
        guard let text = try? top.string(key) else { throw ReceiptFault(path: key, problem: "is not a string") }
        guard !text.isEmpty else { throw ReceiptFault(path: key, problem: "is empty") }
        return text
    }

    private static func receipt(_ object: JSONObject) -> Result<Receipt, ReceiptFault> {
        do throws(ReceiptFault) {
            let receipt = ReceiptObject(object, path: "receipt")
            let transactions = try receipt.objects("latest_receipt_info", max: ReceiptLimits.transactionsMax)
            let renewals = try receipt.objects("pending_renewal_info", max: ReceiptLimits.transactionsMax)
            // The store omits a list that would be empty, but an answer without either is one of its errors.
            if transactions == nil, renewals == nil {
                throw receipt.fault(nil, "has neither latest_receipt_info nor pending_renewal_info")
            }
            return .success(
                Receipt(
                    transactions: try (transactions ?? []).map { item throws(ReceiptFault) in
                        try StoreTransaction(item)
                    },
                    renewals: try (renewals ?? []).map { item throws(ReceiptFault) in try PendingRenewal(item) }))
        } catch {
            return .failure(error)
        }
    }
}

extension StoreTransaction {
    fileprivate init(_ item: ReceiptObject) throws(ReceiptFault) {
        let product = try item.id("product_id")
        let group = try item.id("subscription_group_identifier")
        guard product != nil || group != nil else {
            throw item.fault(nil, "has neither product_id nor subscription_group_identifier")
        }
        self.init(
            product: product, group: group, expiresAt: item.expiry("expires_date"),
            // Any value there means that the store took the purchase back.
            isRefunded: item.states("cancellation_date") || item.states("cancellation_date_ms"),
            isTrial: try item.flag("is_trial_period"), isIntroductory: try item.flag("is_in_intro_offer_period"))
    }
}

extension PendingRenewal {
    fileprivate init(_ item: ReceiptObject) throws(ReceiptFault) {
        // The product that it renews to is of the same group.
        let next = try item.id("auto_renew_product_id")
        guard let product = try item.id("product_id") ?? next else { throw item.fault("product_id", "is missing") }
        let grace = item.expiry("grace_period_expires_date")
        let statesGrace = item.states("grace_period_expires_date_ms") || item.states("grace_period_expires_date")
        if statesGrace, grace == nil { throw item.fault("grace_period_expires_date", "is not a time") }
        self.init(product: product, group: try item.id("subscription_group_identifier"), graceExpiresAt: grace)
    }
}
