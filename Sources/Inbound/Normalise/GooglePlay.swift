internal import JSONText
package import Vocabulary

/// Google Play's Real-time Developer Notifications, pushed by Pub/Sub
/// (developer.android.com/google/play/billing/rtdn-reference). `GooglePlayNames` has the meaning of each type.
///
/// A notification names a token and a type. Holder, product, end, environment and the token before it come from the
/// Google Play Developer API, which is asked before the event is recorded (`GooglePlayEnrichment`) if the source has an
/// account for it; what it answered, and what the ledger knew of the token, is stored with the event and read by
/// `normalise`.
package struct GooglePlay: SourceAdapter {
    private let keys: JSONWebKeyLookup

    /// - Parameter keys: the keys of Google's ID tokens. Without them no webhook is accepted or refused.
    package init(keys: @escaping JSONWebKeyLookup = { _ in .unverifiable }) { self.keys = keys }

    package var knownEventNames: [String] { GooglePlayNames.all }

    package func authenticate(
        header: (String) -> String?, body: [UInt8], source: Source, now: Timestamp
    ) -> Authenticity {
        switch (source.authentication, source.settings) {
        case (.none, _): .authentic
        case (.token, .googlePlay(let settings)), (.signature, .googlePlay(let settings)):
            PubSubToken.authenticate(header: header, settings: settings, keys: keys, now: now)
        default: .refused(.unsupportedAuthentication)
        }
    }

    /// Answers the test notification of the Play Console; any 2xx acknowledges it.
    package func handshake(_ body: [UInt8]) -> [UInt8]? {
        guard let notice = try? GooglePlayNotice(body), notice.subject == .test else { return nil }
        return JSONWriter.object { $0.member("test", "received") }
    }

    package func enrichment(of body: [UInt8], from source: Source) throws(Unreadable) -> GooglePlayEnrichment? {
        let notice = try GooglePlayNotice(body)
        try notice.requireApp(of: source)
        return GooglePlayEnrichment(notice, asksAPI: source.api != nil)
    }

    package func requireOwn(_ body: [UInt8], of source: Source) throws(Unreadable) {
        try GooglePlayNotice(body).requireApp(of: source)
    }

    package func normalise(
        _ body: [UInt8], header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event { try normalise(body, answer: nil, from: source) }

    package func normalise(
        _ body: [UInt8], answer: [UInt8]?, header: (String) -> String?, from source: Source
    ) throws(Unreadable) -> Event { try normalise(body, answer: answer, from: source) }

    /// The event together with what the API answered about it.
    /// - Parameter answer: the document of `GooglePlayEnrichment`, or of `Event.answer`; nil: the API was not asked.
    package func normalise(_ body: [UInt8], answer: [UInt8]?, from source: Source) throws(Unreadable) -> Event {
        let notice = try GooglePlayNotice(body)
        let read: GooglePlayAnswer? = if let answer { try GooglePlayAnswer(answer) } else { nil }
        let statement = GooglePlayStatement(notice, answer: read, naming: Self.naming(of: source))
        let environment = statement.environment ?? source.defaultEnvironment
        return Event(
            scope: Scope(
                source: source.name, app: source.app ?? notice.packageName,
                environment: environment),
            vendorEventID: notice.messageID,
            name: GooglePlayNames.name(of: notice.subject),
            type: statement.type,
            holder: statement.holder,
            occurredAt: notice.occurredAt,
            // A redelivery repeats the body.
            isTimeRepeated: true,
            asOf: statement.statedAt,
            yieldsTransaction: statement.yieldsTransaction,
            isIDOfSource: true,
            purchase: statement.purchase,
            transaction: statement.transaction,
            money: notice.isVoid ? Money(isRefund: true).json : nil,
            mayConvertTrial: statement.mayConvertTrial,
            typeIfPaused: statement.typeIfPaused,
            facts: statement.facts,
            decoded: notice.decoded(with: answer),
            answer: answer,
            tokens: statement.tokens(in: environment),
            // Beside it, a redelivery may count how often it was tried.
            repeated: notice.document,
            body: body)
    }

    package func decoded(_ body: [UInt8], answer: [UInt8]?) -> [UInt8]? {
        (try? GooglePlayNotice(body)).map { $0.decoded(with: answer) }
    }

    private static func naming(of source: Source) -> AccountNaming {
        guard case .googlePlay(let settings) = source.settings else { return .user }
        return settings.accountID
    }
}
