internal import JSONText
package import Vocabulary

/// Asks the Google Play Developer API about one event before it is recorded. Pure: it says what to ask and look up
/// next; its owner does that and passes on what came.
///
///     ready ──▶ asked ──200──▶ lookingUp ──not known──▶ askedLink ──200──▶ lookingUp …
///       │         │                └ known: done            └ no link, forgotten, unknown: done
///       │         ├ no link, forgotten, unknown, or the ledger knows the event's own token: done
///       │         └ a fault, here as in askedLink: cannot say; anything else: unusable
///       └ without the API: by the name, in the purchase that the ledger knows
///
/// A change of plan makes a new token, whose answer names the one before it (`linkedPurchaseToken`). The chain is
/// followed to the first token, so that a purchase has one key for its life. The ledger's word on a token comes first,
/// because purchases are never merged later; where the chain breaks off, the oldest token reached is the first.
///
/// An answer that says nothing of the purchase (no right, too many requests, a fault) must not be read as an end:
/// `cannotSay` is answered 503, and Pub/Sub sends the message again. One that would be the same next time is not worth
/// the wait: the event goes to quarantine.
package struct GooglePlayEnrichment: Sendable {
    /// A request: `GET` of `target` at androidpublisher.googleapis.com.
    package enum Question: Hashable, Sendable {
        /// purchases.subscriptionsv2.get
        case subscription(GooglePlayToken)
        /// purchases.productsv2.getproductpurchasev2
        case product(GooglePlayToken)

        /// The path. It has the whole token: for the request alone, never for the journal.
        package func target(package name: String) -> String {
            let app = GooglePlayToken.pathSegment(name)
            let resource =
                switch self {
                case .subscription(let token): "subscriptionsv2/tokens/\(token.pathSegment)"
                case .product(let token): "productsv2/tokens/\(token.pathSegment)"
                }
            return "/androidpublisher/v3/applications/\(app)/purchases/\(resource)"
        }
    }

    /// What its owner does next.
    package enum Step: Hashable, Sendable {
        /// Send the request, then call `answered`. If no answer comes, answer 503 and record nothing.
        case ask(Question)
        /// Look the token up in the ledger, then call `found`.
        case lookUp(GooglePlayToken)
        /// Record the event with this answer. `GooglePlayAnswer` reads from its status what the event means.
        case done(answer: [UInt8])
        /// Record the event as it came: nothing is asked, and nothing is known of its token.
        case asIs
        /// Answer 503 and record nothing. The reason is for a person and quotes nothing.
        case cannotSay(reason: String)
        /// Quarantine the event: it would be answered the same again. The reason is as before.
        case unusable(reason: String)
    }

    /// What an answer says, before its purchase is read.
    enum Verdict: Hashable, Sendable {
        case purchase
        /// The API has forgotten it, some two months after its end.
        case ended
        /// Seen of subscriptions that the API has forgotten. Google's pages do not say that, and the reason fits other
        /// failures, too: it is an end only where the notification is about one.
        case perhapsEnded
        /// The API knows no such token, or no longer: it proves nothing. A 404 without a reason is not the API's, and
        /// that of an app that the account does not reach is a fault.
        case unknownToken
        /// Of the API, or of the right to ask it: nothing of this purchase.
        case fault
        /// It would come again.
        case other
    }

    /// The reasons are Google's ("Error codes" of its API reference).
    static func verdict(status: Int, body: [UInt8]) -> Verdict {
        switch status {
        case 200: .purchase
        case 410: .ended
        case 400: reason(in: body) == "failedPrecondition" ? .perhapsEnded : .other
        case 404: [nil, "applicationNotFound"].contains(reason(in: body)) ? .fault : .unknownToken
        case 401, 403, 408, 429, 500...: .fault
        default: .other
        }
    }

    private static func reason(in body: [UInt8]) -> String? {
        guard body.count <= answerBytesMax, let fields = try? BodyFields(body),
            let error = fields.object("error")?.objects("errors").first
        else { return nil }
        return try? error.text("reason")
    }

    /// What access is asked for (developers.google.com/android-publisher/authorization).
    static let accessScope = "https://www.googleapis.com/auth/androidpublisher"
    /// Links of a chain that are followed for one event.
    static let linksMax = 8
    /// Bytes of one answer of the API; Google's have some 1,000.
    package static let answerBytesMax = 64 << 10

    private enum State {
        case ready
        case asked
        /// `purchase` is the answer about the event's own token.
        case lookingUp(GooglePlayToken, purchase: [UInt8])
        case askedLink(GooglePlayToken, purchase: [UInt8])
        case over
    }

    private var state = State.ready
    /// `GooglePlayNotice.messageID`, by which the ledger knows the event.
    package let messageID: String
    package let occurredAt: Timestamp
    /// The app that is asked about.
    package let packageName: String
    private let kind: Purchase.Kind
    /// Whether what may be an end is one: where the notification's name states a loss or a payment that was called off;
    /// any other may be about a subscription that runs, as one that was cancelled does, and one of which a past payment
    /// was voided. A one-time purchase ends by the refund of the whole alone.
    private let allowsEnd: Bool
    private let asksAPI: Bool
    /// What the ledger has of the event's token, or of the one that it replaced.
    private var known: KnownToken?
    private var askedAt = Timestamp(milliseconds: 0)
    /// The event's token and those before it, newest first.
    private var chain: [GooglePlayToken]
    private var links: [GooglePlayAnswer.Link] = []

    /// Nil: the notification is about no purchase that the API can be asked about.
    /// - Parameter asksAPI: false: only the ledger is asked.
    package init?(_ notice: GooglePlayNotice, asksAPI: Bool = true) {
        guard let token = notice.token, let kind = notice.kind else { return nil }
        self.kind = kind
        let isOfEnd =
            GooglePlayNames.meaning(of: notice.subject).fact == .loss || GooglePlayNames.isCalledOff(notice.subject)
        allowsEnd = notice.isWholeVoid || kind == .subscription && isOfEnd
        self.asksAPI = asksAPI
        messageID = notice.messageID
        occurredAt = notice.occurredAt
        packageName = notice.packageName
        chain = [token]
    }

    /// The token of the event, to be looked up in the ledger before `start`.
    package var token: GooglePlayToken { chain[0] }

    /// - Parameters:
    ///   - known: what the ledger has of `token`.
    ///   - askedAt: the time of everything that the answer states: the database's, and later than all that is stated
    ///     about the token's purchase.
    package mutating func start(known: KnownToken?, askedAt: Timestamp) -> Step {
        guard case .ready = state else { return misused() }
        self.known = known
        self.askedAt = askedAt
        guard asksAPI else {
            state = .over
            return known == nil ? .asIs : finish(status: nil, purchase: nil, first: known?.first ?? token.name)
        }
        state = .asked
        return .ask(kind == .oneTime ? .product(token) : .subscription(token))
    }

    /// The API has answered what was asked.
    /// - Parameter body: all of it.
    package mutating func answered(status: Int, body: [UInt8]) -> Step {
        switch state {
        case .asked: return purchase(status: status, body: body)
        case .askedLink(let link, let purchase): return self.link(link, status: status, body: body, of: purchase)
        case .ready, .lookingUp, .over: return misused()
        }
    }

    /// The ledger has the token that was to be looked up; nil: it has not.
    package mutating func found(_ row: KnownToken?) -> Step {
        guard case .lookingUp(let link, let purchase) = state else { return misused() }
        guard let row else {
            state = .askedLink(link, purchase: purchase)
            return .ask(.subscription(link))
        }
        links.append(GooglePlayAnswer.Link(token: link.name, status: nil, purchase: nil))
        // The purchase goes on in the environment in which it was recorded.
        known = KnownToken(token: token.id, first: row.first, environment: row.environment, isReplaced: false)
        return finish(status: 200, purchase: purchase, first: row.first)
    }

    // MARK: The answers

    private mutating func purchase(status: Int, body: [UInt8]) -> Step {
        switch Self.verdict(status: status, body: body) {
        case .purchase:
            let read: GooglePlayState
            do throws(Unreadable) {
                read = try self.read(body, kind)
            } catch {
                return unusable("the Google Play Developer API's answer cannot be read: \(error.reason)")
            }
            if let known { return finish(status: status, purchase: body, first: known.first) }
            return follow(read.linkedToken, purchase: body)
        case .ended, .unknownToken: return finish(status: status, purchase: nil, first: known?.first ?? token.name)
        case .perhapsEnded where allowsEnd:
            return finish(status: status, purchase: nil, first: known?.first ?? token.name)
        case .fault: return cannotSay("the Google Play Developer API answered \(status)")
        case .perhapsEnded:
            return unusable(
                "the Google Play Developer API answered \(status) failedPrecondition, as of purchases that it has forgotten; "
                    + "discard it if it stays so")
        case .other: return unusable("the Google Play Developer API answered \(status)")
        }
    }

    private mutating func link(_ link: GooglePlayToken, status: Int, body: [UInt8], of purchase: [UInt8]) -> Step {
        switch Self.verdict(status: status, body: body) {
        case .purchase:
            let read: GooglePlayState
            do throws(Unreadable) {
                read = try self.read(body, .subscription)
            } catch {
                return unusable("the Google Play Developer API's answer about an earlier token cannot be read")
            }
            links.append(GooglePlayAnswer.Link(token: link.name, status: status, purchase: body))
            return follow(read.linkedToken, purchase: purchase)
        // Some two months after its end a token is unknown.
        case .ended, .perhapsEnded, .unknownToken:
            links.append(GooglePlayAnswer.Link(token: link.name, status: status, purchase: nil))
            return finish(status: 200, purchase: purchase, first: link.name)
        case .fault: return cannotSay("the Google Play Developer API answered \(status) about an earlier token")
        case .other: return unusable("the Google Play Developer API answered \(status) about an earlier token")
        }
    }

    private func read(_ body: [UInt8], _ kind: Purchase.Kind) throws(Unreadable) -> GooglePlayState {
        guard body.count <= Self.answerBytesMax else {
            throw Unreadable(reason: "it is longer than \(Self.answerBytesMax) bytes")
        }
        let fields = try BodyFields(body)
        return try kind == .oneTime
            ? GooglePlayState(oneTimeProduct: fields)
            : GooglePlayState(subscription: fields, askedAt: askedAt)
    }

    /// Goes on with the token before the oldest one reached.
    private mutating func follow(_ link: GooglePlayToken?, purchase: [UInt8]) -> Step {
        guard let link else { return finish(status: 200, purchase: purchase, first: oldest.name) }
        // Google makes no circle. If it did, each of its tokens would have to lead to the same first one.
        if let start = chain.firstIndex(of: link) {
            let first = chain[start...].map(\.name).min { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            return finish(status: 200, purchase: purchase, first: first ?? link.name)
        }
        guard links.count < Self.linksMax else {
            return finish(status: 200, purchase: purchase, first: oldest.name)
        }
        chain.append(link)
        state = .lookingUp(link, purchase: purchase)
        return .lookUp(link)
    }

    private var oldest: GooglePlayToken { chain[chain.count - 1] }

    // MARK: The end

    private mutating func finish(status: Int?, purchase: [UInt8]?, first: String) -> Step {
        let links = links.map { link in
            GooglePlayAnswer.Link(
                token: link.token, status: link.status, purchase: link.purchase.map(Self.withoutPerson))
        }
        let answer = GooglePlayAnswer.Record(
            askedAt: askedAt, kind: kind, status: status, purchase: purchase.map(Self.withoutPerson), links: links,
            first: first, known: known
        ).write()
        // What is stored must be readable for as long as the event is kept.
        guard (try? GooglePlayAnswer(answer)) != nil else {
            return unusable("the Google Play Developer API's answers cannot be kept")
        }
        state = .over
        return .done(answer: answer)
    }

    /// An answer without the name and the addresses of a person who subscribed with a Google account: nothing needs
    /// them here, and receivers must not get them.
    private static func withoutPerson(_ purchase: [UInt8]) -> [UInt8] {
        guard let object = try? JSONScan.topObject(purchase, depthMax: Limits.jsonDepthMax),
            object.rawRange(person) != nil
        else { return purchase }
        return JSONWriter.object { json in
            for key in object.keys where key != person {
                guard let raw = object.raw(key) else { continue }
                json.key(key)
                json.raw(raw)
            }
        }
    }

    private static let person = "subscribeWithGoogleInfo"

    private mutating func cannotSay(_ reason: String) -> Step {
        state = .over
        return .cannotSay(reason: reason)
    }

    private mutating func unusable(_ reason: String) -> Step {
        state = .over
        return .unusable(reason: reason)
    }

    /// A call that does not fit the state: nothing is said of the purchase.
    private mutating func misused() -> Step { cannotSay("the enrichment was called out of turn") }
}
