package import Vocabulary

/// Asks the Google Play Developer API about one event before it is recorded. Pure: it says what to ask and look up
/// next; its owner does that and passes on what came.
///
///     ready ──▶ asked ──200──▶ lookingUp ──not known──▶ askedLink ──200──▶ lookingUp …
///                 │                └ known: done            └ no link, 404, 410: done
///                 ├ no link, or the ledger knows the event's own token: done
///                 ├ 410: ends; 404: goes by its name
///                 └ anything else, here as in askedLink: cannot say
///
/// A change of plan makes a new token, whose answer names the one before it (`linkedPurchaseToken`). The chain is
/// followed to the first token, so that a purchase has one key for its life. The ledger's word on a token comes first,
/// because purchases are never merged later; where the chain breaks off, the oldest token reached is the first.
///
/// An answer that says nothing of the purchase (no right, too many requests, a fault) must not be read as an end:
/// `cannotSay` is answered 503, and Pub/Sub sends the message again.
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
        /// Record the event with this answer.
        case done(answer: [UInt8])
        /// 410: the same. The answer says that the purchase has ended.
        case ends(answer: [UInt8])
        /// 404: the same. The answer says nothing, so the event means what its name says.
        case goesByName(answer: [UInt8])
        /// Answer 503 and record nothing. The reason is for a person and quotes nothing.
        case cannotSay(reason: String)
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
    private var known: KnownToken?
    private var askedAt = Timestamp(milliseconds: 0)
    /// The event's token and those before it, newest first.
    private var chain: [GooglePlayToken]
    private var links: [GooglePlayAnswer.Link] = []

    /// Nil: the notification is about no purchase that the API can be asked about.
    package init?(_ notice: GooglePlayNotice) {
        guard let token = notice.token, let kind = notice.kind else { return nil }
        self.kind = kind
        messageID = notice.messageID
        occurredAt = notice.occurredAt
        packageName = notice.packageName
        chain = [token]
    }

    /// The token of the event, to be looked up in the ledger before `start`.
    package var token: GooglePlayToken { chain[0] }

    /// - Parameters:
    ///   - known: what the ledger has of `token`.
    ///   - askedAt: the database's time: that of everything that the answer states.
    package mutating func start(known: KnownToken?, askedAt: Timestamp) -> Step {
        guard case .ready = state else { return misused() }
        self.known = known
        self.askedAt = askedAt
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
        return finish(status: 200, purchase: purchase, first: row.first)
    }

    // MARK: The answers

    private mutating func purchase(status: Int, body: [UInt8]) -> Step {
        switch status {
        case 200:
            let read: GooglePlayState
            do throws(Unreadable) {
                read = try self.read(body, kind)
            } catch {
                return cannotSay("the Google Play Developer API's answer cannot be read: \(error.reason)")
            }
            if let known { return finish(status: 200, purchase: body, first: known.first) }
            return follow(read.linkedToken, purchase: body)
        case 404, 410: return finish(status: status, purchase: nil, first: known?.first ?? token.name)
        default: return cannotSay("the Google Play Developer API answered \(status)")
        }
    }

    private mutating func link(_ link: GooglePlayToken, status: Int, body: [UInt8], of purchase: [UInt8]) -> Step {
        switch status {
        case 200:
            let read: GooglePlayState
            do throws(Unreadable) {
                read = try self.read(body, .subscription)
            } catch {
                return cannotSay("the Google Play Developer API's answer about an earlier token cannot be read")
            }
            links.append(GooglePlayAnswer.Link(token: link.name, status: status, purchase: body))
            return follow(read.linkedToken, purchase: purchase)
        // Some two months after its end a token is unknown.
        case 404, 410:
            links.append(GooglePlayAnswer.Link(token: link.name, status: status, purchase: nil))
            return finish(status: 200, purchase: purchase, first: link.name)
        default: return cannotSay("the Google Play Developer API answered \(status) about an earlier token")
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

    private mutating func finish(status: Int, purchase: [UInt8]?, first: String) -> Step {
        let answer = GooglePlayAnswer.Record(
            askedAt: askedAt, kind: kind, status: status, purchase: purchase, links: links, first: first, known: known
        ).write()
        // What is stored must be readable for as long as the event is kept.
        guard (try? GooglePlayAnswer(answer)) != nil else {
            return cannotSay("the Google Play Developer API's answers cannot be kept")
        }
        state = .over
        switch status {
        case 404: return .goesByName(answer: answer)
        case 410: return .ends(answer: answer)
        default: return .done(answer: answer)
        }
    }

    private mutating func cannotSay(_ reason: String) -> Step {
        state = .over
        return .cannotSay(reason: reason)
    }

    /// A call that does not fit the state: nothing is said of the purchase.
    private mutating func misused() -> Step { cannotSay("the enrichment was called out of turn") }
}
