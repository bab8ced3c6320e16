internal import Vocabulary

/// One line of an invoice.
struct StripeLine {
    /// Lines of an invoice that are read; an event contains fewer.
    private static let linesMax = 100

    let start: Timestamp?
    let end: Timestamp?
    let price: String?
    let product: String?
    private let subscription: String?
    /// Whether it settles a change within a period.
    private let isProration: Bool

    /// Since API version 2025-03-31.basil the line's subscription stands under `parent` and its price under `pricing`.
    private init(_ line: BodyFields) throws(Unreadable) {
        let parent = line.object("parent")
        let details = parent?.object("subscription_item_details") ?? parent?.object("invoice_item_details") ?? line
        subscription = try details.text("subscription")
        isProration = details.flag("proration")
        let period = line.object("period")
        start = period?.epoch("start")
        end = period?.epoch("end")
        if let pricing = line.object("pricing")?.object("price_details") {
            price = try pricing.text("price")
            product = try pricing.text("product")
        } else {
            let former = line.object("price") ?? line.object("plan")
            price = try former?.text("id")
            product = try former?.text("product")
        }
    }

    /// The lines that pay for a coming period of the subscription: neither a change within a period nor what was used
    /// up in the last one. The invoice's own `period_end` is that of the last period.
    static func paidAhead(of subscription: String, in invoice: BodyFields) throws(Unreadable) -> [StripeLine] {
        let invoicedAt = invoice.epoch("created")
        var lines: [StripeLine] = []
        for fields in (invoice.object("lines")?.objects("data") ?? []).prefix(linesMax) {
            let line = try StripeLine(fields)
            guard !line.isProration, line.subscription.map(subscription.hasSameBytes) ?? true, let end = line.end
            else { continue }
            if let invoicedAt, end <= invoicedAt { continue }
            lines.append(line)
        }
        return lines
    }
}
