internal import JSONText
package import Vocabulary

/// Apphud's server-to-server webhook (docs.apphud.com/docs/webhook). It is not signed: an optional token is copied into
/// `X-Apphud-Token`. Each webhook is sent only once, whatever the answer.
///
/// Its users are known users, because an id chosen by the app cannot be distinguished from a generated one. Until the
/// app sets its own id of the user, the generated one is that of the device. Apphud merges users by the original
/// transaction: the same purchase under another user is a transfer that Posthouse resolves.
package struct Apphud: SourceAdapter {
    package init() {}

    package var knownEventNames: [String] { ApphudNames.all }

    package var token: StaticToken? { StaticToken(header: "X-Apphud-Token") }

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event {
        let fields = try BodyFields(body)
        let event = try fields.requiredObject("event")
        let name = try event.requiredName("name")
        let user = try fields.requiredObject("user")
        let holder = Holder.user(try user.requiredText("user_id"))
        let occurredAt = try event.requiredTime(.iso8601("created_at"))
        let statement = try ApphudStatement(name: name, event: event, user: user, at: occurredAt)
        let environment = statement.environment ?? source.environment
        return Event(
            scope: Scope(
                source: source.name, app: try app(in: fields, statement: statement, source: source),
                environment: environment ?? Source.usualEnvironment),
            vendorEventID: try event.text("id"),
            name: name,
            type: statement.type,
            holder: holder,
            occurredAt: occurredAt,
            // Its receipt names the product of that period.
            yieldsProduct: statement.isRefundOfPastPeriod,
            purchase: try statement.purchase(),
            transaction: try statement.transaction(),
            money: statement.money.json,
            // Without a known environment there are no facts: a test purchase would grant access for good.
            facts: environment == nil ? [] : statement.facts(of: holder),
            body: body)
    }

    /// The app's name in the purchase's store. One app of Apphud has an iOS and an Android name.
    private func app(
        in fields: BodyFields, statement: ApphudStatement, source: Source
    ) throws(Unreadable) -> String {
        if let app = source.app { return app }
        guard let app = fields.object("app") else { return "" }
        let bundle = try app.text("bundle_id")
        let package = try app.text("package_name")
        return (statement.store == SharedVocabulary.google ? package ?? bundle : bundle ?? package) ?? ""
    }
}
