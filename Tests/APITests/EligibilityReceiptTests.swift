@testable import API
import Foundation
import Testing
import Vocabulary

/// Receipts in the spelling of the store, and what is none.
@Suite struct EligibilityReceiptTests {
    /// 2024-06-30T12:00:00Z.
    static let now = Timestamp(milliseconds: 1_719_748_800_000)

    /// As the store writes them: numbers and booleans as text, each time three times.
    static let sample = """
        {"quantity": "1", "product_id": "premium.monthly", "transaction_id": "1000000900000001",
         "original_transaction_id": "1000000900000000",
         "purchase_date": "2024-05-01 10:11:12 Etc/GMT", "purchase_date_ms": "1714558272000",
         "purchase_date_pst": "2024-05-01 03:11:12 America/Los_Angeles",
         "expires_date": "2024-06-01 10:11:12 Etc/GMT", "expires_date_ms": "1717236672000",
         "expires_date_pst": "2024-06-01 03:11:12 America/Los_Angeles",
         "web_order_line_item_id": "1000000050000000", "is_trial_period": "false",
         "is_in_intro_offer_period": "false", "in_app_ownership_type": "PURCHASED",
         "subscription_group_identifier": "20400001"}
        """

    static func body(
        _ transactions: String = sample, _ renewals: String = "", group: String = "20400001",
        offer: String = "introductory"
    ) -> [UInt8] {
        Array(
            """
            {"receipt": {"environment": "Production", "latest_receipt_info": [\(transactions)],
             "pending_renewal_info": [\(renewals)]}, "group": "\(group)", "offer": "\(offer)"}
            """.utf8)
    }

    static func answer(_ body: [UInt8], products: Set<String> = []) throws -> Eligibility {
        try ReceiptReading.read(body).decide(products: products, now: now)
    }

    static func first(_ item: String) throws -> StoreTransaction? {
        try ReceiptReading.read(body(item)).receipt.get().transactions.first
    }

    @Test func theSampleIsRead() throws {
        let reading = try ReceiptReading.read(
            Self.body(
                Self.sample,
                """
                {"auto_renew_product_id": "premium.yearly", "product_id": "premium.monthly",
                 "original_transaction_id": "1000000900000000", "auto_renew_status": "1",
                 "is_in_billing_retry_period": "1", "grace_period_expires_date": "2024-07-01 00:00:00 Etc/GMT",
                 "grace_period_expires_date_ms": "1719792000000"}
                """, offer: "promotional"))
        #expect(reading.group == "20400001" && reading.offer == .promotional)
        let receipt = try reading.receipt.get()
        #expect(
            receipt.transactions == [
                StoreTransaction(
                    product: "premium.monthly", group: "20400001",
                    expiresAt: Timestamp(milliseconds: 1_717_236_672_000))
            ])
        #expect(
            receipt.renewals == [
                PendingRenewal(
                    product: "premium.monthly", graceExpiresAt: Timestamp(milliseconds: 1_719_792_000_000))
            ])
        #expect(reading.decide(products: [], now: Self.now).answer == .entitled)
        #expect(reading.decide(products: [], now: Timestamp(milliseconds: 1_719_792_000_000)).answer == .eligible)
    }

    /// The text of a time must mean what its milliseconds mean; the oracle is Foundation's own formatter.
    @Test func everySpellingOfAnEnd() throws {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "yyyy-MM-dd HH:mm:ss 'Etc/GMT'"
        for seconds in [1, 951_782_399, 1_709_164_800, 1_717_236_672, 4_102_444_799] {
            let text = formatter.string(from: Date(timeIntervalSince1970: TimeInterval(seconds)))
            for fields in [
                "\"expires_date\": \"\(text)\"", "\"expires_date_ms\": \"\(seconds)000\"",
                "\"expires_date_ms\": \(seconds)000", "\"expires_date\": \"\(text)\", \"expires_date_ms\": null",
                "\"expires_date\": \"\(text)\", \"expires_date_ms\": \"\"",
                "\"expires_date\": \"nonsense\", \"expires_date_ms\": \"\(seconds)000\"",
            ] {
                let item = "{\"product_id\": \"a\", \(fields)}"
                #expect(try Self.first(item)?.expiresAt == Timestamp(milliseconds: Int64(seconds) * 1_000), "\(fields)")
            }
        }
    }

    @Test(arguments: [
        "\"expires_date\": \"2024-06-01 10:11:12\"", "\"expires_date\": \"2024-06-01 03:11:12 America/Los_Angeles\"",
        "\"expires_date\": \"2024-06-31 10:11:12 Etc/GMT\"", "\"expires_date\": \"2024-06-01  10:11:12 Etc/GMT\"",
        "\"expires_date\": \" Etc/GMT\"", "\"expires_date\": 5", "\"expires_date_ms\": 1.5",
        "\"expires_date_ms\": \"soon\"", "\"expires_date_ms\": \"99999999999999999999\"",
        "\"expires_date_ms\": \"x\", \"expires_date\": \"2024-06-01 10:11:12 Etc/GMT\"", "\"expires_date_ms\": null",
        "\"expires_date_pst\": \"2024-06-01 03:11:12 America/Los_Angeles\"",
    ]) func anEndThatCannotBeReadIsNone(_ fields: String) throws {
        let item = "{\"product_id\": \"a\", \"subscription_group_identifier\": \"20400001\", \(fields)}"
        #expect(try Self.first(item)?.expiresAt == nil)
        #expect(try Self.answer(Self.body(item)).answer == .unknown)
        // Another transaction may decide all the same.
        let trial = "{\"product_id\": \"b\", \"subscription_group_identifier\": 20400001, \"is_trial_period\": true}"
        #expect(try Self.answer(Self.body(item + "," + trial)).answer == .notEligible)
    }

    @Test func flagsAreBooleansOrText() throws {
        for (value, flag) in [
            ("true", true), ("\"true\"", true), ("false", false), ("\"false\"", false), ("null", false),
        ] {
            for key in ["is_trial_period", "is_in_intro_offer_period"] {
                let item = Self.sample.replacing("\"\(key)\": \"false\"", with: "\"\(key)\": \(value)")
                let transaction = try #require(try Self.first(item))
                #expect((key == "is_trial_period" ? transaction.isTrial : transaction.isIntroductory) == flag)
                #expect((key == "is_trial_period" ? transaction.isIntroductory : transaction.isTrial) == false)
                #expect(try Self.answer(Self.body(item)).answer == (flag ? .notEligible : .eligible))
            }
        }
    }

    @Test func aCancellationInAnySpellingIsARefund() throws {
        for (field, isRefunded) in [
            ("\"cancellation_date\": \"2024-05-02 10:11:12 Etc/GMT\"", true), ("\"cancellation_date_ms\": 1", true),
            ("\"cancellation_date_ms\": \"1714644672000\"", true), ("\"cancellation_date\": \"some day\"", true),
            ("\"cancellation_date\": null", false), ("\"cancellation_date\": \"\"", false),
        ] {
            let item = "{\"product_id\": \"a\", \"expires_date_ms\": 5, \(field)}"
            #expect(try Self.first(item)?.isRefunded == isRefunded)
            #expect(
                try Self.answer(Self.body(item, group: "named"), products: ["a"]).answer
                    == (isRefunded ? .notEligible : .eligible))
        }
    }

    @Test func aReceiptWithoutPurchasesIsReadable() throws {
        #expect(try Self.answer(Self.body(""), products: ["a"]).answer == .eligible)
        #expect(try Self.answer(Self.body("")).answer == .unknown)
        for receipt in ["{\"latest_receipt_info\": []}", "{\"pending_renewal_info\": [ ]}"] {
            let body = "{\"receipt\": \(receipt), \"group\": \"g\", \"offer\": \"introductory\"}"
            #expect(try Self.answer(Array(body.utf8), products: ["a"]).answer == .eligible)
        }
    }

    static let unreadable: [(receipt: String, fault: String)] = [
        ("{}", "receipt has neither latest_receipt_info nor pending_renewal_info"),
        ("{\"status\": 21007}", "receipt has neither latest_receipt_info nor pending_renewal_info"),
        (
            "{\"latest_receipt_info\": null, \"pending_renewal_info\": null}",
            "receipt has neither latest_receipt_info nor pending_renewal_info"
        ),
        ("{\"latest_receipt_info\": {}}", "receipt.latest_receipt_info is not an array"),
        ("{\"latest_receipt_info\": \"x\"}", "receipt.latest_receipt_info is not an array"),
        ("{\"latest_receipt_info\": [], \"pending_renewal_info\": 5}", "receipt.pending_renewal_info is not an array"),
        ("{\"latest_receipt_info\": [{\"product_id\": \"a\"}, null]}", elements),
        ("{\"latest_receipt_info\": [[]]}", elements), ("{\"latest_receipt_info\": [ [{}] ]}", elements),
        ("{\"latest_receipt_info\": [1.5]}", elements), ("{\"latest_receipt_info\": [true, {}]}", elements),
        (
            "{\"latest_receipt_info\": [{\"product_id\": \"a\"}, {}]}",
            "receipt.latest_receipt_info[1] has neither product_id nor subscription_group_identifier"
        ),
        (
            "{\"latest_receipt_info\": [{\"product_id\": []}]}",
            "receipt.latest_receipt_info[0].product_id is neither a string nor an integer"
        ),
        (
            "{\"latest_receipt_info\": [{\"product_id\": \"a\", \"is_trial_period\": \"yes\"}]}",
            "receipt.latest_receipt_info[0].is_trial_period is neither true nor false"
        ),
        (
            "{\"latest_receipt_info\": [{\"product_id\": \"a\", \"is_in_intro_offer_period\": 1}]}",
            "receipt.latest_receipt_info[0].is_in_intro_offer_period is neither true nor false"
        ),
        ("{\"pending_renewal_info\": [{}]}", "receipt.pending_renewal_info[0].product_id is missing"),
        (
            "{\"pending_renewal_info\": [{\"product_id\": \"a\", \"grace_period_expires_date\": \"soon\"}]}",
            "receipt.pending_renewal_info[0].grace_period_expires_date is not a time"
        ),
    ]
    static let elements = "receipt.latest_receipt_info holds something other than objects"

    /// Fail-open is the oldest mistake here: what cannot be read is UNKNOWN, and the answer says where.
    @Test(arguments: unreadable) func anUnreadableReceiptIsUnknown(_ receipt: String, _ fault: String) throws {
        for offer in Offer.allCases {
            let body = "{\"receipt\": \(receipt), \"group\": \"g\", \"offer\": \"\(offer.rawValue)\"}"
            let answer = try Self.answer(Array(body.utf8), products: ["a"])
            #expect(answer.answer == .unknown)
            #expect(answer.reason == "The receipt cannot be read: \(fault).")
        }
    }

    static let questions: [(body: String, fault: String)] = [
        ("", "the body is not one strict JSON object: not a JSON object at byte 0"),
        ("{\"group\": \"g\",}", "the body is not one strict JSON object: unexpected character at byte 14"),
        ("[]", "the body is not one strict JSON object: not a JSON object at byte 0"),
        ("{\"receipt\": {}, \"offer\": \"introductory\"}", "group is missing"),
        ("{\"receipt\": {}, \"group\": 5, \"offer\": \"introductory\"}", "group is not a string"),
        ("{\"receipt\": {}, \"group\": null, \"offer\": \"introductory\"}", "group is not a string"),
        ("{\"receipt\": {}, \"group\": \"\", \"offer\": \"introductory\"}", "group is empty"),
        ("{\"receipt\": {}, \"group\": \"g\"}", "offer is missing"),
        (
            "{\"receipt\": {}, \"group\": \"g\", \"offer\": \"free\"}",
            "offer is neither \"introductory\" nor \"promotional\""
        ),
        ("{\"group\": \"g\", \"offer\": \"introductory\"}", "receipt is missing"),
        ("{\"receipt\": \"MIIT\", \"group\": \"g\", \"offer\": \"introductory\"}", "receipt is not an object"),
        ("{\"receipt\": null, \"group\": \"g\", \"offer\": \"introductory\"}", "receipt is not an object"),
    ]

    @Test(arguments: questions) func aQuestionThatIsNone(_ body: String, _ fault: String) {
        let thrown = #expect(throws: ReceiptFault.self) { try ReceiptReading.read(Array(body.utf8)) }
        #expect(thrown?.description == fault)
    }

    @Test func sizesAreBounded() throws {
        let max = ReceiptLimits.transactionsMax
        let item = "{\"product_id\":\"a\",\"expires_date_ms\":1}"
        func body(_ count: Int) -> [UInt8] {
            Self.body(Array(repeating: item, count: count).joined(separator: ","), group: "g")
        }
        #expect(try Self.answer(body(max), products: ["a"]).answer == .eligible)
        #expect(
            try Self.answer(body(max + 1), products: ["a"]).reason
                == "The receipt cannot be read: receipt.latest_receipt_info has 10001 members; 10000 are allowed.")
        let long = String(repeating: "g", count: Limits.identifierBytesMax + 1)
        let fault = #expect(throws: ReceiptFault.self) { try ReceiptReading.read(Self.body(group: long)) }
        #expect(fault?.path == "group")
        #expect(try Self.answer(Self.body("{\"product_id\": \"\(long)\"}"), products: ["a"]).answer == .unknown)
    }

    /// Whatever the bytes are: an answer or a fault, and a cut-short receipt is never an answer.
    @Test func mutationsAndTruncations() throws {
        let original = Self.body(Self.sample, "{\"product_id\": \"premium.monthly\", \"auto_renew_status\": \"1\"}")
        for end in original.indices {
            #expect(throws: ReceiptFault.self) { try ReceiptReading.read(Array(original[..<end])) }
        }
        var random = EligibilityRandom(state: 4)
        let alphabet = Array("[]{}\",:\\ \u{0}ntf019.-e\u{E4}".utf8)
        var answers = 0
        for _ in 0..<10_000 {
            var bytes = original
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let at = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.insert(alphabet.randomElement(using: &random) ?? 0x20, at: at)
                default: bytes.remove(at: at)
                }
            }
            guard let reading = try? ReceiptReading.read(bytes) else { continue }
            answers += 1
            #expect(!reading.decide(products: ["premium.monthly"], now: Self.now).reason.isEmpty)
        }
        #expect(answers > 100)
    }
}
