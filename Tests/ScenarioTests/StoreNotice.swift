import Foundation

/// A webhook that a store documents, and what must come of it.
struct StoreNotice: Sendable {
    /// What it says of access to its purchase.
    enum Access: Sendable {
        /// Its holder has it.
        case has
        /// Its holder does not, and is known with the purchase.
        case hasNot
        /// The same as `has`, of a purchase of which nobody has been named: it passes from its own anonymous holder.
        case named
        case unstated
    }

    /// A name of the configured source, which its path ends in.
    let source: String
    let id: String
    let body: String
    /// The vendor's name of the event.
    let name: String
    let type: String
    /// Whether the type follows from what came before it: in another order of arrival it may be another.
    var isByMemory = false
    /// Storage key of the holder that the event itself names; "": it names nobody.
    let holder: String
    /// The purchase key; nil: it is about no purchase.
    let purchase: String?
    /// Who has access to the purchase after it and those before it: storage keys of holders.
    let access: [String: Bool]
    /// Whether the purchase passes from one account to another by it.
    var isTransfer = false
    /// As `said` writes it; nil: nothing is said of money.
    let money: String?
    var environment = "PRODUCTION"
    /// What the vendor's API answers about tokens from then on.
    var answers: [(token: String, answer: Google.Answer)] = []

    /// A body that becomes no event.
    struct Other: Sendable {
        let source: String
        let body: String
        let status: Int
        /// Whether it is kept in quarantine.
        var isKept = false
        /// Whether it is sent with the headers that prove a body.
        var isProven = true
    }

    /// `data.money` in short: `9.99 EUR`, `9.99 EUR back`, `back`.
    static func said(_ money: Any?) -> String? {
        guard let money = money as? [String: Any] else { return nil }
        let amount = [money["amount"], money["currency"]].compactMap { $0 as? String }
        return (amount + (money["is_refund"] as? Bool == true ? ["back"] : [])).joined(separator: " ")
    }

    static func json(_ object: [String: Any]) throws -> String {
        String(decoding: try JSONSerialization.data(withJSONObject: object), as: UTF8.self)
    }
}
