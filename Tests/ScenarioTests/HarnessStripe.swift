import Foundation

/// Stripe in this process: snapshot events with the members that docs.stripe.com/api documents, and their signature.
/// Times are in whole seconds since 1970.
enum Stripe {
    static let secret = "whsec_scenarios0123456789abcdef"

    /// `[[source]]` named stripe.
    static var source: Relay.SourceTable { .init(name: "stripe", kind: "stripe", secrets: [secret]) }

    /// HMAC-SHA256(secret, `t` ++ "." ++ body) in hex, signed now (docs.stripe.com/webhooks).
    static func signature(of body: [UInt8]) -> [(String, String)] {
        let (time, code) = proof(of: body)
        return [("Stripe-Signature", "t=\(time),v1=\(code)")]
    }

    /// The parts of the header: the time of the signature, and the signature.
    /// - Parameter age: seconds since it was made.
    static func proof(
        of body: [UInt8], secret: String = secret, age: Int = 0
    ) -> (time: String, code: String) {
        let time = String(Int(Date().timeIntervalSince1970) - age)
        return (time, Source.signature(body, secret: secret, timestamp: time + "."))
    }

    /// The body of an event. `object` and `previous` are JSON objects.
    static func event(_ type: String, id: String, at: Int64, _ object: String, previous: String? = nil) -> String {
        let attributes = previous.map { #","previous_attributes":\#($0)"# } ?? ""
        return #"""
            {"id":"\#(id)","object":"event","api_version":"2026-10-28.endive","created":\#(at),"livemode":true,
            "pending_webhooks":1,"request":null,"type":"\#(type)","data":{"object":\#(object)\#(attributes)}}
            """#
    }

    /// One customer with one subscription.
    struct Customer: Sendable {
        let id: String
        let subscription: String
        /// Its price is `price_…` and its product `prod_…` with this.
        var plan = "1"

        /// - Parameter since: when it began; nil: with this period.
        func subscription(
            _ status: String, from start: Int64, to end: Int64, user: String?, since: Int64? = nil,
            endedAt: Int64? = nil
        ) -> String {
            let ended = endedAt.map { String($0) } ?? "null"
            return #"""
                {"id":"\#(subscription)","object":"subscription","customer":"\#(id)","status":"\#(status)",
                "cancel_at":null,"cancel_at_period_end":false,"trial_end":null,"latest_invoice":"in_\#(start)",
                "start_date":\#(since ?? start),"ended_at":\#(ended),"metadata":\#(metadata(user)),
                "items":\#(items(from: start, to: end))}
                """#
        }

        func items(from start: Int64, to end: Int64) -> String {
            #"""
            {"object":"list","data":[{"id":"si_1","object":"subscription_item","current_period_start":\#(start),
            "current_period_end":\#(end),"quantity":1,"price":{"id":"price_\#(plan)","object":"price",
            "product":"prod_\#(plan)","unit_amount":990,"currency":"eur",
            "recurring":{"interval":"week","interval_count":1}}}]}
            """#
        }

        /// Of a further period; made at its start, with a copy of the metadata of that time.
        func invoice(from start: Int64, to end: Int64, user: String?) -> String {
            #"""
            {"id":"in_\#(start)","object":"invoice","billing_reason":"subscription_cycle","customer":"\#(id)",
            "created":\#(start),"status":"paid","amount_paid":990,"parent":{"type":"subscription_details",
            "subscription_details":{"subscription":"\#(subscription)","metadata":\#(metadata(user))}},
            "lines":{"object":"list","data":[{"object":"line_item","period":{"start":\#(start),"end":\#(end)},
            "parent":{"subscription_item_details":{"proration":false,"subscription":"\#(subscription)"}},
            "pricing":{"price_details":{"price":"price_\#(plan)","product":"prod_\#(plan)"}}}]}}
            """#
        }

        /// A completed checkout session, which names the user.
        func session(user: String) -> String {
            #"""
            {"id":"cs_\#(id)","object":"checkout.session","mode":"subscription","status":"complete",
            "payment_status":"paid","payment_intent":null,"customer":"\#(id)","subscription":"\#(subscription)",
            "client_reference_id":null,"metadata":\#(metadata(user))}
            """#
        }

        /// The first payment, refunded as a whole.
        func refundedCharge(at time: Int64) -> String {
            #"""
            {"id":"ch_\#(id)","object":"charge","customer":"\#(id)","payment_intent":"pi_\#(id)","amount":990,
            "amount_refunded":990,"refunded":true,"created":\#(time),"description":"Subscription creation"}
            """#
        }

        private func metadata(_ user: String?) -> String { user.map { #"{"user_id":"\#($0)"}"# } ?? "{}" }
    }
}
