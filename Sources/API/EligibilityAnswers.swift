internal import HTTPServer
internal import JSONText
internal import Ledger
internal import Vocabulary

/// Answers whether a person may have an offer, from the ledger or from a receipt.
extension Backend {
    func readEligibility(_ call: Call) async throws(APIFailure) -> HTTPAnswer {
        let parameters = try call.parameters()
        let subject = try parameters.subject(of: call.operation)
        let (asked, offer) = (try parameters.groups, try parameters.offer)
        let scope = try await scope(parameters, call)
        let products = Array(Set(asked.flatMap { groups[$0] ?? [] }))
        let held = try await gate.pass { () async throws(LookupFailure) in
            try await lookup.transactions(
                of: subject, in: scope, products: products,
                eventTypes: [LedgerWord.refunded] + LedgerWord.ofTrials + LedgerWord.ofIntroductoryOffers,
                stating: LedgerWord.previousOffer)
        }
        let now = try clock.now()
        let answers = asked.map { group in
            held.map { decide(group, offer, $0, now) } ?? .tooMany
        }
        if answers.count == 1 { return .object { $0.write(answers[0]) } }
        return .object { json in
            json.member("data", objects: zip(asked, answers)) { answered, json in
                json.member("group", answered.0)
                json.write(answered.1)
            }
        }
    }

    func judgeReceipt(_ call: Call) throws(APIFailure) -> HTTPAnswer {
        _ = try call.parameters()
        let reading: ReceiptReading
        do throws(ReceiptFault) {
            reading = try ReceiptReading.read(call.body)
        } catch {
            throw .body("\(error)")
        }
        let answer = reading.decide(products: Set(groups[reading.group] ?? []), now: try clock.now())
        return .object { $0.write(answer) }
    }

    /// Decides for one group. One-time purchases and grants of the app's backend are in no group of a store.
    private func decide(_ group: String, _ offer: Offer, _ held: [HeldTransaction], _ now: Timestamp) -> Eligibility {
        let products = Set(groups[group] ?? [])
        let ofGroup = held.filter { $0.kind == .subscription && products.contains($0.product) }
        let transactions = ofGroup.map(StoreTransaction.init)
        // Each subscription represents the entry that the store keeps of it, active or expired.
        let renewals = ofGroup.map { item in
            PendingRenewal(
                product: item.product, isInGrace: item.isRunningForSubject && item.status == LedgerWord.inGrace)
        }
        return Eligibility.decide(
            EligibilityQuestion(group: group, products: products, offer: offer), transactions: transactions,
            renewals: renewals, now: now)
    }
}

/// The ledger's words that matter for an offer: types of messages, states and offers of transactions, all Purchasely's.
private enum LedgerWord {
    static let refunded = StandardTypes.refunded
    /// Each shows that there was a trial, even if the webhook of its start never came.
    static let ofTrials = ["TRIAL_STARTED", "TRIAL_CONVERTED", "TRIAL_NOT_CONVERTED"]
    static let ofIntroductoryOffers = ["INTRO_OFFER_STARTED", "INTRO_OFFER_CONVERTED", "INTRO_OFFER_NOT_CONVERTED"]
    /// The offer of the previous period: a member of Purchasely's bodies.
    static let previousOffer = "previous_offer_type"
    static let revoked = "REVOKED"
    static let inGrace = "IN_GRACE_PERIOD"
    static let freeTrial = "FREE_TRIAL"
    static let introductory = "INTRO_OFFER"
}

extension StoreTransaction {
    init(_ held: HeldTransaction) {
        let offers = held.stated.union(held.offerType.map { [$0] } ?? [])
        self.init(
            product: held.product, expiresAt: held.until, isRunning: held.isRunning,
            isRefunded: held.status == LedgerWord.revoked || held.eventTypes.contains(LedgerWord.refunded),
            isTrial: offers.contains(LedgerWord.freeTrial) || !held.eventTypes.isDisjoint(with: LedgerWord.ofTrials),
            isIntroductory: offers.contains(LedgerWord.introductory)
                || !held.eventTypes.isDisjoint(with: LedgerWord.ofIntroductoryOffers))
    }
}

extension Eligibility {
    /// The transactions beyond the limit might decide.
    fileprivate static let tooMany = Eligibility(
        .unknown, "There are more than \(HolderLookup.transactionsMax) transactions.")
}

extension JSONWriter {
    fileprivate mutating func write(_ answer: Eligibility) {
        member("eligibility", answer.answer.rawValue)
        member("reason", answer.reason)
    }
}
