import JSONText
import Vocabulary

/// What a message states in the fields of its standard payload, before it is written: `where` of an integration is
/// judged by these values, without reading the payload.
struct MessageFields {
    let statement: MessageEnvelope.Statement
    let subject: MessageEnvelope.Subject
    let scope: Scope
    let time: Timestamp

    init(
        _ statement: MessageEnvelope.Statement, of subject: MessageEnvelope.Subject = .init(), in scope: Scope,
        at time: Timestamp
    ) {
        self.statement = statement
        self.subject = subject
        self.scope = scope
        self.time = time
    }

    init(_ statement: MessageEnvelope.Statement, of subject: MessageEnvelope.Subject, causedBy event: Event) {
        self.init(statement, of: subject, in: event.scope, at: event.occurredAt)
    }

    /// Whom the message names: its holder, the user that this is known to be, and both sides of a transfer; each once.
    var named: [Holder] {
        let resolved = statement.resolvedUserID.map { Holder.user($0) }
        var holders: [Holder] = []
        for holder in [statement.holder, resolved, statement.transfer?.from, statement.transfer?.to] {
            if let holder, !holders.contains(holder) { holders.append(holder) }
        }
        return holders
    }

    func accessSubject(_ holder: Holder) -> MessageAccess.Subject {
        MessageAccess.Subject(source: scope.source, environment: scope.environment, holder: holder)
    }

    /// The field as `MessageEnvelope` writes it, of a number its digits; nil: it is null or absent there.
    func text(of field: MessageField) -> String? {
        switch field {
        case .type: statement.type
        case .timestamp: time.iso8601
        case .eventID: statement.eventID
        case .eventName: statement.eventName
        case .source: scope.source
        case .environment: scope.environment
        case .holderUser: Self.user(statement.holder)
        case .holderAnonymous: Self.anonymous(statement.holder)
        case .resolvedUser: statement.resolvedUserID
        case .transferID: statement.transfer?.id
        case .transferFromUser: Self.user(statement.transfer?.from)
        case .transferFromAnonymous: Self.anonymous(statement.transfer?.from)
        case .transferToUser: Self.user(statement.transfer?.to)
        case .transferToAnonymous: Self.anonymous(statement.transfer?.to)
        case .purchaseKey: subject.purchase?.key
        case .purchaseKind: subject.purchase?.kind.rawValue
        case .product: subject.purchase?.product
        case .plan: subject.purchase?.plan
        case .store: subject.purchase?.store
        case .app: subject.purchase.map { _ in scope.app }
        case .subscriptionID: subject.purchase?.subscriptionID
        case .storeTransactionID: subject.transaction?.storeTransactionID
        case .storeOriginalTransactionID: subject.transaction?.storeOriginalTransactionID
        case .purchasedAt: Self.digits(subject.transaction?.purchasedAt)
        case .effectiveNextRenewalAt: Self.digits(subject.transaction?.effectiveNextRenewalAt)
        case .offerType: subject.transaction?.offerType
        case .status: subject.transaction?.status
        }
    }

    private static func user(_ holder: Holder?) -> String? {
        if case .user(let id) = holder { id } else { nil }
    }

    private static func anonymous(_ holder: Holder?) -> String? {
        if case .anonymous(let id) = holder { id } else { nil }
    }

    private static func digits(_ time: Timestamp?) -> String? { time.map { String($0.milliseconds) } }
}

/// The same fields of a message that is stored: what they were when it was recorded is in its envelope alone.
struct StoredMessageFields {
    /// Objects inside one another up to a field: `{"data":{"transfer":{"from":{…}}}}`, with room for more.
    private static let depthMax = 16

    private let payload: JSONObject

    /// - Parameter envelope: up to `decoded` or `original`, whichever is first (`BackfillStatements.envelopes`).
    init(_ envelope: [UInt8]) throws(JSONError) {
        payload = try JSONScan.topObject(envelope + Message.envelopeEnd, depthMax: Self.depthMax)
    }

    func text(of field: MessageField) throws(JSONError) -> String? {
        var object = payload
        var path = field.path[...]
        let name = path.removeLast()
        for key in path {
            guard let inner = try object.object(key) else { return nil }
            object = inner
        }
        return try object.digits(name)
    }
}
