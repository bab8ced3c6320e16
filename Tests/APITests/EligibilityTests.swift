@testable import API
import Testing
import Vocabulary

/// Every rule and every pitfall of introductory offers, each with the answer that it demands. The clock stands at
/// `now`.
@Suite struct EligibilityTests {
    static let now = Timestamp(milliseconds: 1_700_000_000_000)
    static let past = now.advanced(byMilliseconds: -1)
    static let future = now.advanced(byMilliseconds: 1)

    static func decide(
        _ transactions: [StoreTransaction], _ renewals: [PendingRenewal] = [],
        products: Set<String> = ["month", "year"],
        _ offer: Offer = .introductory, at now: Timestamp = now
    ) -> Eligibility {
        Eligibility.decide(
            EligibilityQuestion(group: "G", products: products, offer: offer), transactions: transactions,
            renewals: renewals, now: now)
    }

    /// An ordinary subscription of the group that has ended.
    static func ended(_ product: String? = "month", group: String? = nil) -> StoreTransaction {
        StoreTransaction(product: product, group: group, expiresAt: past)
    }

    @Test func nothingBoughtIsEligible() {
        #expect(Self.decide([]).answer == .eligible)
        #expect(Self.decide([], [], .promotional).answer == .notEligible)
    }

    @Test func theEndDecidesAndEqualIsOver() {
        for (end, answer) in [
            (Self.past, Eligibility.Answer.eligible), (Self.now, .eligible), (Self.future, .notEligible),
        ] {
            #expect(Self.decide([StoreTransaction(product: "month", expiresAt: end)]).answer == answer)
        }
    }

    /// What runs does so behind its end and without one; what was refunded or used before goes first.
    @Test func whatRunsIsNotOver() {
        for end in [nil, Self.past] {
            let running = StoreTransaction(product: "year", expiresAt: end, isRunning: true)
            #expect(Self.decide([Self.ended(), running]) == EligibilityReason.active.eligibility)
        }
        let trial = StoreTransaction(product: "year", expiresAt: Self.past, isRunning: true, isTrial: true)
        #expect(Self.decide([trial]) == EligibilityReason.offerUsed.eligibility)
        for offer in Offer.allCases {
            let inGrace = PendingRenewal(product: "year", isInGrace: true)
            #expect(Self.decide([Self.ended()], [inGrace], offer).answer == .entitled)
        }
    }

    /// The latest end counts, wherever it is.
    @Test func anOlderTransactionDoesNotHideANewerOne() {
        let active = StoreTransaction(product: "year", expiresAt: Self.future)
        #expect(Self.decide([active, Self.ended()]).answer == .notEligible)
        #expect(Self.decide([Self.ended(), active]).answer == .notEligible)
    }

    /// The device may say what it likes: only the clock that is passed in counts.
    @Test func theClockIsPassedIn() {
        let transaction = StoreTransaction(product: "month", expiresAt: Self.now)
        #expect(Self.decide([transaction], at: Self.past).answer == .notEligible)
        #expect(Self.decide([transaction], at: Self.now).answer == .eligible)
        #expect(Self.decide([transaction], at: Timestamp(milliseconds: .max)).answer == .eligible)
        #expect(Self.decide([transaction], at: Timestamp(milliseconds: .min)).answer == .notEligible)
    }

    @Test func aTrialOrIntroductoryPriceIsUsedForEver() {
        for (trial, intro) in [(true, false), (false, true), (true, true)] {
            let used = StoreTransaction(
                product: "month", expiresAt: Timestamp(milliseconds: 0), isTrial: trial, isIntroductory: intro)
            #expect(Self.decide([used, Self.ended("year")]).answer == .notEligible)
        }
    }

    /// Before the trial flags, and whether or not its period has ended.
    @Test func aRefundIsNotEligible() {
        for end in [Self.past, Self.future, nil] {
            let refunded = StoreTransaction(product: "month", expiresAt: end, isRefunded: true)
            #expect(Self.decide([refunded]) == EligibilityReason.refunded.eligibility)
            let used = StoreTransaction(product: "month", expiresAt: end, isRefunded: true, isTrial: true)
            #expect(Self.decide([used]) == EligibilityReason.refunded.eligibility)
        }
    }

    @Test func anotherGroupDoesNotCount() {
        let others = [
            StoreTransaction(product: "other", group: "H", expiresAt: Self.future, isTrial: true),
            StoreTransaction(product: "coins", expiresAt: nil),
            StoreTransaction(product: nil, group: "H", expiresAt: nil, isRefunded: true),
        ]
        let renewals = [
            PendingRenewal(product: "other", group: "H", graceExpiresAt: Self.future), PendingRenewal(product: "other"),
        ]
        #expect(Self.decide(others, renewals) == EligibilityReason.nothingBought.eligibility)
        #expect(Self.decide(others, renewals, .promotional) == EligibilityReason.neverSubscribed.eligibility)
        #expect(Self.decide(others + [Self.ended()], renewals) == EligibilityReason.expired.eligibility)
    }

    /// By the store's identifier, with no product configured or another one; by the product, with no identifier.
    @Test func aTransactionBelongsByEither() {
        let trial = StoreTransaction(product: "old", group: "G", expiresAt: Self.past, isTrial: true)
        #expect(Self.decide([trial]).answer == .notEligible)
        #expect(Self.decide([trial], products: []).answer == .notEligible)
        let bare = StoreTransaction(product: nil, group: "G", expiresAt: Self.past, isTrial: true)
        #expect(Self.decide([bare], products: []).answer == .notEligible)
        let byProduct = StoreTransaction(product: "year", expiresAt: Self.past, isTrial: true)
        #expect(Self.decide([byProduct]).answer == .notEligible)
        let otherName = StoreTransaction(product: "year", group: "20400001", expiresAt: Self.past, isTrial: true)
        #expect(Self.decide([otherName]).answer == .notEligible)
    }

    @Test func graceIsEntitledWhateverElseIsThere() {
        let everything = [
            StoreTransaction(product: "month", expiresAt: Self.past, isRefunded: true, isTrial: true),
            StoreTransaction(product: "month", expiresAt: nil),
            StoreTransaction(product: "year", expiresAt: Self.future),
        ]
        let grace = PendingRenewal(product: "month", graceExpiresAt: Self.future)
        for offer in Offer.allCases {
            #expect(Self.decide(everything, [grace], offer) == EligibilityReason.grace.eligibility)
            #expect(Self.decide([], [grace], offer) == EligibilityReason.grace.eligibility)
        }
        for over in [Self.past, Self.now] {
            let renewal = PendingRenewal(product: "month", graceExpiresAt: over)
            #expect(Self.decide([Self.ended()], [renewal]) == EligibilityReason.expired.eligibility)
            #expect(Self.decide([Self.ended()], [renewal], .promotional) == EligibilityReason.hasSubscribed.eligibility)
        }
    }

    /// The store states no group with a pending renewal: its product is known from the transactions.
    @Test func aRenewalBelongsByWhatIsKnownOfItsProduct() {
        let transaction = Self.ended("old", group: "G")
        let grace = PendingRenewal(product: "old", graceExpiresAt: Self.future)
        #expect(Self.decide([transaction], [grace], products: []).answer == .entitled)
        #expect(Self.decide([transaction], [grace]).answer == .entitled)
        #expect(Self.decide([], [grace]).answer == .eligible)
        let stated = PendingRenewal(product: "new", group: "G", graceExpiresAt: Self.future)
        #expect(Self.decide([], [stated], products: []).answer == .entitled)
    }

    @Test func promotionalNeedsAPendingRenewal() {
        #expect(Self.decide([Self.ended()], [PendingRenewal(product: "month")], .promotional).answer == .eligible)
        #expect(Self.decide([Self.ended()], [], .promotional).answer == .notEligible)
        let active = StoreTransaction(product: "month", expiresAt: Self.future)
        #expect(Self.decide([active], [PendingRenewal(product: "month")], .promotional).answer == .eligible)
        // Neither a refund nor a trial prevents it.
        let used = StoreTransaction(product: "month", expiresAt: Self.past, isRefunded: true, isTrial: true)
        #expect(Self.decide([used], [PendingRenewal(product: "month")], .promotional).answer == .eligible)
    }

    /// Never a guess: an open end decides only where nothing else has.
    @Test func anUnreadableEndIsUnknown() {
        let open = StoreTransaction(product: "month", expiresAt: nil)
        #expect(Self.decide([open]).answer == .unknown)
        #expect(Self.decide([open, Self.ended()]).answer == .unknown)
        #expect(Self.decide([open, StoreTransaction(product: "year", expiresAt: Self.future)]).answer == .notEligible)
        #expect(
            Self.decide([open, StoreTransaction(product: "year", expiresAt: nil, isTrial: true)]).answer == .notEligible
        )
        #expect(Self.decide([open], [PendingRenewal(product: "month")], .promotional).answer == .eligible)
    }

    @Test func aGroupThatNobodyKnowsIsUnknown() {
        for offer in Offer.allCases {
            #expect(Self.decide([], [], products: [], offer) == EligibilityReason.groupIsUnknown.eligibility)
            let other = StoreTransaction(product: "x", group: "H", expiresAt: Self.past)
            #expect(
                Self.decide([other], [PendingRenewal(product: "x")], products: [], offer)
                    == EligibilityReason.groupIsUnknown.eligibility)
        }
        #expect(Self.decide([Self.ended("x", group: "G")], products: []).answer == .eligible)
    }

    @Test func everyReasonHasASentenceOfItsOwn() {
        let reasons = EligibilityReason.allCases.map(\.eligibility.reason)
        #expect(Set(reasons).count == reasons.count)
        for reason in reasons { #expect(reason.hasSuffix(".") && reason.count <= 90 && !reason.contains("\n")) }
        #expect(
            Eligibility.Answer.allCases.map(\.rawValue) == ["ELIGIBLE", "NOT_ELIGIBLE", "ENTITLED", "UNKNOWN"])
        #expect(Offer.allCases.map(\.rawValue) == ["introductory", "promotional"])
    }
}
