import Testing
import Vocabulary

@testable import API
@testable import Ledger

/// Oracle: the corrected order of the eligibility rules, with events of the ledger.
@Suite("Eligibility over the API", .serialized)
struct EligibilityAnswerTests {
    private static let past = at(1_000)

    private func ask(_ service: TestService, _ query: String = "user_id=jeff&group=premium") async -> String {
        await service.get("/v1/eligibility?" + query).object["eligibility"] as? String ?? "-"
    }

    @Test(
        "What the ledger's words mean",
        arguments: [
            ("regular, ended", "AUTO_RENEWING_CANCELED", "NONE", "SUBSCRIPTION_STARTED", false, "ELIGIBLE"),
            ("regular, running", "AUTO_RENEWING", "NONE", "SUBSCRIPTION_STARTED", true, "NOT_ELIGIBLE"),
            ("revoked", "REVOKED", "NONE", "SUBSCRIPTION_STARTED", false, "NOT_ELIGIBLE"),
            ("refunded", "DEACTIVATED", "NONE", "SUBSCRIPTION_REFUNDED_REVOKED", false, "NOT_ELIGIBLE"),
            ("trial", "DEACTIVATED", "FREE_TRIAL", "SUBSCRIPTION_STARTED", false, "NOT_ELIGIBLE"),
            ("trial by its event", "DEACTIVATED", "NONE", "TRIAL_STARTED", false, "NOT_ELIGIBLE"),
            ("introductory", "DEACTIVATED", "INTRO_OFFER", "SUBSCRIPTION_STARTED", false, "NOT_ELIGIBLE"),
            ("introductory by its event", "DEACTIVATED", "NONE", "INTRO_OFFER_STARTED", false, "NOT_ELIGIBLE"),
            ("grace", "IN_GRACE_PERIOD", "NONE", "GRACE_PERIOD_STARTED", true, "ENTITLED"),
            ("grace, over", "IN_GRACE_PERIOD", "NONE", "GRACE_PERIOD_STARTED", false, "ELIGIBLE"),
        ])
    func words(
        name: String, status: String, offerType: String, type: String, isRunning: Bool, expected: String
    ) async throws {
        try await TestService.run { service in
            await service.record(
                .stating(
                    type, of: .user("jeff"), until: isRunning ? farAway : Self.past, status: status,
                    offerType: offerType))
            #expect(await ask(service) == expected, "\(name)")
            #expect(await ask(service, "user_id=other&group=premium") == "ELIGIBLE")
        }
    }

    @Test("What is active although its end has passed runs: its renewal may be reported later")
    func leeway() async throws {
        try await TestService.run { service in
            let ended = try #require(service.clock.now).advanced(byMilliseconds: -3_600_000)
            func isActive(_ user: String) async -> Bool? {
                await service.get("/v1/entitlements?user_id=" + user).data.first?["active"] as? Bool
            }
            await service.record(
                .stating(of: .user("jeff"), purchase: "p1", transaction: "t0", until: at(100)),
                .stating(of: .user("jeff"), at: at(100), purchase: "p1", transaction: "t1", until: ended),
                .stating(of: .user("ann"), purchase: "p2", until: ended, status: "IN_GRACE_PERIOD"),
                // In grace once, and renewed since then.
                .stating(
                    of: .user("bob"), purchase: "p3", transaction: "t0", until: at(100), status: "IN_GRACE_PERIOD"),
                .stating(of: .user("bob"), at: at(100), purchase: "p3", transaction: "t1", until: ended))
            for (user, answer) in [("jeff", "NOT_ELIGIBLE"), ("ann", "ENTITLED"), ("bob", "NOT_ELIGIBLE")] {
                #expect(await isActive(user) == true, "\(user)")
                #expect(await ask(service, "user_id=\(user)&group=premium") == answer, "\(user)")
            }
            #expect(await ask(service, "user_id=ann&group=premium&offer=promotional") == "ENTITLED")
            await service.record(
                .stating(
                    "DEACTIVATE", of: .user("jeff"), kind: .loss, at: at(200), purchase: "p1", transaction: "t1",
                    until: ended))
            #expect(await isActive("jeff") == false)
            #expect(await ask(service) == "ELIGIBLE")
        }
    }

    @Test("Each word that says that there was a trial or an introductory price")
    func used() {
        func transaction(_ types: Set<String> = [], offer: String? = "NONE", stated: Set<String> = [])
            -> StoreTransaction
        {
            StoreTransaction(
                HeldTransaction(
                    kind: .subscription, product: "gold", until: Self.past, offerType: offer, status: nil,
                    isRunning: false, isRunningForSubject: false, eventTypes: types, stated: stated))
        }
        for end in ["STARTED", "CONVERTED", "NOT_CONVERTED"] {
            #expect(transaction(["TRIAL_" + end]).isTrial && !transaction(["TRIAL_" + end]).isIntroductory)
            #expect(transaction(["INTRO_OFFER_" + end]).isIntroductory && !transaction(["INTRO_OFFER_" + end]).isTrial)
        }
        #expect(transaction(stated: ["FREE_TRIAL"]).isTrial && transaction(offer: "FREE_TRIAL").isTrial)
        #expect(transaction(stated: ["NONE", "INTRO_OFFER"]).isIntroductory)
        let regular = transaction(["SUBSCRIPTION_RENEWED", "PROMO_CODE_CONVERTED"], stated: ["NONE", "PROMO_CODE"])
        #expect(!regular.isTrial && !regular.isIntroductory && !regular.isRefunded)
    }

    @Test("The end of a trial and the offer before say that one was used, where the start never came")
    func endings() async throws {
        try await TestService.run { service in
            func record(_ user: String, _ type: String, _ body: String? = nil) async {
                await service.record(
                    .stating(
                        type, of: .user(user), purchase: "p-" + user, until: Self.past, status: "DEACTIVATED",
                        body: body))
            }
            await record("converted", "TRIAL_CONVERTED")
            await record("lapsed", "INTRO_OFFER_NOT_CONVERTED")
            await record("before", "SUBSCRIPTION_RENEWED", #"{"n":"é\"", "previous_offer_type" : "FREE_TRIAL"}"#)
            await record("none", "SUBSCRIPTION_RENEWED", #"{"previous_offer_type":"NONE","x":"\u00e9"}"#)
            for user in ["converted", "lapsed", "before"] {
                #expect(await ask(service, "user_id=\(user)&group=premium") == "NOT_ELIGIBLE", "\(user)")
            }
            #expect(await ask(service, "user_id=none&group=premium") == "ELIGIBLE")
        }
    }

    @Test("Other groups, other holders' and one-time purchases, other environments count for nothing")
    func filters() async throws {
        try await TestService.run { service in
            let jeff = Holder.user("jeff")
            await service.record(
                .stating(of: jeff, purchase: "p1", product: "themes", offerType: "FREE_TRIAL"),
                .stating(of: .user("ann"), purchase: "p2", offerType: "FREE_TRIAL"),
                .stating(of: jeff, purchase: "p3", offerType: "FREE_TRIAL", isOneTime: true),
                .stating(of: jeff, environment: "SANDBOX", offerType: "FREE_TRIAL"))
            #expect(await ask(service) == "ELIGIBLE")
            #expect(await ask(service, "user_id=jeff&group=extras") == "NOT_ELIGIBLE")
            #expect(await ask(service, "user_id=jeff&group=premium&environment=SANDBOX") == "NOT_ELIGIBLE")
            #expect(await ask(service, "user_id=jeff&group=nobody") == "UNKNOWN")
            let several = await service.get("/v1/eligibility?user_id=jeff&group=premium&group=extras&group=nobody")
            #expect(several.column("group") == ["premium", "extras", "nobody"])
            #expect(several.column("eligibility") == ["ELIGIBLE", "NOT_ELIGIBLE", "UNKNOWN"])
        }
    }

    @Test("What was transferred away still counts, and an older transaction whose events are gone")
    func past() async throws {
        try await TestService.run { service in
            let device = Holder.anonymous("device")
            await service.record(
                .stating(of: device, at: at(0), transaction: "t1", until: at(100), offerType: "FREE_TRIAL"),
                .stating(of: device, at: at(100), transaction: "t2", until: at(200)),
                .stating("DEACTIVATE", of: device, kind: .loss, at: at(150), transaction: "t2", until: at(200)))
            service.psql("DELETE FROM events")
            #expect(await ask(service, "anonymous_user_id=device&group=premium") == "NOT_ELIGIBLE")
            #expect(await ask(service, "install=device&group=premium") == "NOT_ELIGIBLE")
        }
    }

    @Test("What a device bought before it logged in counts for who it is now, in the source that says so")
    func linked() async throws {
        try await TestService.run { service in
            func link(_ device: String, _ user: String?, at second: Int64, source: String = "shop") async {
                await service.record(
                    .about(
                        .anonymous(device), at: at(second), source: source,
                        links: [HolderLink(anonymousID: device, userID: user)]))
            }
            // A login moves only what lasts.
            await service.record(
                .stating(of: .anonymous("old"), purchase: "p1", until: Self.past, offerType: "FREE_TRIAL"),
                .stating(of: .anonymous("grace"), purchase: "p2", status: "IN_GRACE_PERIOD"))
            await link("old", "jeff", at: 2_000)
            await link("new", "jeff", at: 2_001)
            await link("old", "ann", at: 2_002, source: "shared")
            await link("grace", "bob", at: 2_003)
            #expect(await ask(service) == "NOT_ELIGIBLE")
            #expect(await ask(service, "install=new&group=premium") == "NOT_ELIGIBLE")
            #expect(await ask(service, "anonymous_user_id=new&group=premium") == "ELIGIBLE")
            #expect(await ask(service, "user_id=ann&group=premium") == "ELIGIBLE")
            // Only the device is let in.
            #expect(await ask(service, "install=grace&group=premium") == "ENTITLED")
            #expect(await ask(service, "user_id=bob&group=premium") == "NOT_ELIGIBLE")
            await link("old", nil, at: 3_000)
            #expect(await ask(service) == "ELIGIBLE")
        }
    }

    @Test("What a device passed on to one user does not count for the next one who logs in on it")
    func linkedToOthers() async throws {
        try await TestService.run { service in
            await service.record(.stating(of: .anonymous("lent"), purchase: "p3", offerType: "FREE_TRIAL"))
            for (command, body) in [
                ("identify", #"{"identity":"kim"}"#), ("logout", ""), ("identify", #"{"identity":"lee"}"#),
            ] {
                #expect(await service.post("/v1/users/lent/\(command)?source=shop&app=", body).status == 200)
            }
            #expect(await ask(service, "user_id=kim&group=premium") == "NOT_ELIGIBLE")
            #expect(await ask(service, "user_id=lee&group=premium") == "ELIGIBLE")
            #expect(await ask(service, "user_id=lee&group=premium&offer=promotional") == "NOT_ELIGIBLE")
        }
    }

    @Test("A promotional offer is for those who subscribe or once did")
    func promotional() async throws {
        try await TestService.run { service in
            await service.record(.stating(of: .user("jeff"), until: Self.past, status: "DEACTIVATED"))
            #expect(await ask(service, "user_id=jeff&group=premium&offer=promotional") == "ELIGIBLE")
            #expect(await ask(service, "user_id=ann&group=premium&offer=promotional") == "NOT_ELIGIBLE")
        }
    }

    @Test("A receipt is judged as it came; a question that cannot be understood is 400, a receipt UNKNOWN")
    func receipts() async throws {
        try await TestService.run { service in
            func judge(_ body: String) async -> (Int, String) {
                let reply = await service.post("/v1/eligibility", body)
                return (reply.status, reply.object["eligibility"] as? String ?? reply.errorCode)
            }
            let question = #""group":"premium","offer":"introductory""#
            func receipt(_ transaction: String) -> String {
                "{\(question),\"receipt\":{\"latest_receipt_info\":[\(transaction)],\"pending_renewal_info\":[]}}"
            }
            let used = receipt(#"{"product_id":"gold","expires_date_ms":"1","is_trial_period":"true"}"#)
            #expect(await judge(used) == (200, "NOT_ELIGIBLE"))
            #expect(await judge(receipt(#"{"product_id":"gold","expires_date_ms":"1"}"#)) == (200, "ELIGIBLE"))
            #expect(await judge(receipt("7")) == (200, "UNKNOWN"))
            #expect(await judge("{\(question)}") == (400, "invalid_body"))
            #expect(await judge(#"{"group":"premium","receipt":{}}"#) == (400, "invalid_body"))
            #expect(await judge("") == (400, "invalid_body"))
            let broken = await service.post("/v1/eligibility", #"{"group": "premium",, }"#)
            #expect(broken.status == 400 && broken.message.contains("at byte 20"))
        }
    }

    @Test("Whose purchase in grace passed on is not let in")
    func graceOfAnother() async throws {
        try await TestService.run { service in
            let device = Holder.anonymous("device")
            await service.record(
                .stating("GRACE_PERIOD_STARTED", of: device, status: "IN_GRACE_PERIOD"),
                .stating("ACTIVATE", of: .user("jeff"), at: at(10), status: "IN_GRACE_PERIOD"))
            #expect(await ask(service) == "ENTITLED")
            #expect(await ask(service, "anonymous_user_id=device&group=premium") == "NOT_ELIGIBLE")
        }
    }
}
