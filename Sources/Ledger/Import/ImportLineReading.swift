import JSONText
import Vocabulary

/// Why a line is left out; never quotes values, which may be ids of people.
package struct ImportFault: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

/// A line as it was read.
package struct ReadImportLine: Sendable {
    package let line: ImportLine
    /// Whether it says what it is, as the canonical form does.
    package let isMarked: Bool
}

extension ImportLine {
    /// Reads one line. Strict: what would be guessed at is an error, and so is a member that is not known.
    package static func read(_ bytes: [UInt8]) throws(ImportFault) -> ReadImportLine {
        let result: Result<ReadImportLine, ImportFault>
        do throws(JSONError) {
            result = try LineReading(try JSONScan.topObject(bytes, depthMax: 8)).run()
        } catch {
            throw ImportFault("\(error)")
        }
        return try result.get()
    }
}

/// Errors of the text are thrown; those of its meaning are the result.
private struct LineReading {
    private static let common: Set<String> = [
        "event_name", "source", "app", "environment", "holder", "as_of", "until",
    ]
    private static let ofLinks: Set<String> = ["user_id", "first"]
    private static let ofChanges: Set<String> = ["change", "transaction_id", "to", "beside"]
    private static let ofPurchases: Set<String> = [
        "store", "purchase", "kind", "active", "product", "plan", "subscription_id", "transaction_id",
        "original_transaction_id", "offer_type", "previous_offer_type", "status", "purchased_at", "stated_at",
        "family", "refunded", "links", "transfers",
        "tokens", "holders", "history",
    ]

    private let object: JSONObject
    private var fault: ImportFault?

    init(_ object: JSONObject) { self.object = object }

    consuming func run() throws(JSONError) -> Result<ReadImportLine, ImportFault> {
        let isPurchase = object.rawRange("purchase") != nil
        let isChange = object.rawRange("change") != nil && !isPurchase
        let known = Self.common.union(isPurchase ? Self.ofPurchases : isChange ? Self.ofChanges : Self.ofLinks)
        if let other = object.keys.first(where: { !known.contains($0) }) {
            let what =
                isPurchase ? "a purchase" : isChange ? "a change of holders" : "an anonymous id (it names no purchase)"
            return .failure(ImportFault("the line of \(what) has no member \"\(other.prefix(40))\""))
        }
        let name = try object.string("event_name")
        if let name, name != Event.importName {
            return .failure(ImportFault("event_name must be \"\(Event.importName)\", or left out"))
        }
        let scope = Scope(
            source: try text("source"), app: try text("app", mayBeEmpty: true), environment: try text("environment"))
        let holder = try holder(object, "holder")
        let asOf = try time("as_of")
        if object.rawRange("until") == nil { fail("until is missing; write null for no end") }
        let until = try time("until")
        let subject: ImportLine.Subject
        if isPurchase {
            subject = .purchase(try stated(by: holder))
        } else if isChange {
            subject = try change(of: holder)
        } else {
            if object.rawRange("user_id") == nil {
                fail("purchase or user_id is missing; write null as user_id for nobody")
            }
            if holder?.isAnonymous == false { fail("the holder must be anonymous, or purchase is missing") }
            let isFirst = try object.bool("first") ?? false
            let user = try optionalText("user_id")
            if isFirst, user == nil || until != nil { fail("first needs a user_id, and until must be null") }
            subject = .link(user: user, isFirst: isFirst)
        }
        if let fault { return .failure(fault) }
        guard let holder, let asOf else { return .failure(ImportFault("as_of is missing")) }
        let line = ImportLine(scope: scope, holder: holder, asOf: asOf, until: until, subject: subject)
        return .success(ReadImportLine(line: line, isMarked: name != nil))
    }

    private mutating func stated(by holder: Holder?) throws(JSONError) -> ImportLine.Stated {
        let kind = Purchase.Kind(rawValue: try text("kind"))
        if kind == nil { fail("kind must be \"subscription\" or \"one_time\"") }
        let purchase = Purchase(
            key: try text("purchase", bytesMax: Limits.purchaseKeyBytesMax), kind: kind ?? .subscription,
            store: try text("store", mayBeEmpty: true),
            product: try optionalText("product"), plan: try optionalText("plan"),
            subscriptionID: try optionalText("subscription_id"))
        var stated = ImportLine.Stated(purchase: purchase, isActive: true)
        if object.rawRange("active") != nil { stated.isActive = try object.bool("active") }
        stated.transactionID = try optionalText("transaction_id")
        stated.originalTransactionID = try optionalText("original_transaction_id")
        stated.offerType = try optionalText("offer_type")
        stated.previousOfferType = try optionalText("previous_offer_type")
        stated.status = try optionalText("status")
        stated.purchasedAt = try time("purchased_at")
        stated.statedAt = try time("stated_at")
        stated.isFamilyShared = try object.bool("family") ?? false
        stated.isRefunded = try object.bool("refunded") ?? false
        stated.links = try object.texts("links")
        if try stated.links.count != object.elementCount("links") { fail("links must be anonymous ids") }
        for link in stated.links { check(link, "links") }
        if !stated.links.isEmpty, holder?.isAnonymous != false {
            fail("links are allowed only with a holder that has a user_id")
        }
        let transfers = try object.objects("transfers")
        if try transfers.count != object.elementCount("transfers") { fail("transfers must be objects") }
        for transfer in transfers {
            let (from, to) = (try self.holder(transfer, "from"), try self.holder(transfer, "to"))
            let ordinal = try transfer.integer("ordinal") ?? 0
            guard let from, let to, from != to, (1...Int64(Limits.importOrdinalMax)).contains(ordinal) else {
                fail("transfers must have from, to, and an ordinal from 1 to \(Limits.importOrdinalMax)")
                break
            }
            stated.transfers.append(ImportLine.TransferCount(from: from, to: to, ordinal: Int(ordinal)))
        }
        stated.tokens = try tokens()
        stated.history = try history()
        return stated
    }

    private mutating func change(of holder: Holder?) throws(JSONError) -> ImportLine.Subject {
        let word = try text("change")
        if word == "install" || word == "first" {
            if holder?.isAnonymous == false { fail("the holder must be an install (anonymous_user_id)") }
            if word == "install" { return .install }
            guard case .user(let identity)? = try self.holder(object, "to") else {
                fail("to must be the identity (user_id)")
                return .install
            }
            return .first(identity: identity)
        }
        guard let kind = KeptChange.Kind(rawValue: word), let target = try self.holder(object, "to") else {
            fail("change must be native, login, share, transfer, copy, first or install")
            return .install
        }
        let second = object.rawRange("beside") == nil ? nil : try self.holder(object, "beside")
        let transaction = try optionalText("transaction_id")
        let subject: KeptChange.Subject? = transaction.map { .transaction($0) } ?? holder.map { .holder($0) }
        return .change(
            KeptChange(kind: kind, subject: subject ?? .holder(target), target: target, secondTarget: second))
    }

    private mutating func history() throws(JSONError) -> StatedHistory? {
        let holders = try object.objects("holders")
        if try holders.count != object.elementCount("holders") { fail("holders must be objects") }
        var holdings: [StatedHistory.Holding] = []
        for held in holders {
            guard let holder = try self.holder(held, "holder"), let isActive = try held.bool("active"),
                let asOf = try time("as_of", in: held)
            else {
                fail("holders must have holder, active and as_of")
                break
            }
            holdings.append(StatedHistory.Holding(holder: holder, isActive: isActive, asOf: asOf))
        }
        guard object.rawRange("history") != nil else {
            if !holders.isEmpty { fail("holders are allowed only with history") }
            return nil
        }
        let lines = try object.objects("history")
        if try lines.count != object.elementCount("history") { fail("history must be a list of objects") }
        switch try ImportHistory.read(lines) {
        case .success(let state): return StatedHistory(state: state, holders: holdings)
        case .failure(let fault):
            fail(fault.description)
            return nil
        }
    }

    private mutating func tokens() throws(JSONError) -> [ImportLine.Token] {
        let objects = try object.objects("tokens")
        if try objects.count != object.elementCount("tokens") { fail("tokens must be objects") }
        var tokens: [ImportLine.Token] = []
        for token in objects {
            guard let id = try token.string("token").flatMap({ Identifier(hex: $0) }) else {
                fail("tokens must have token, 32 hex digits")
                break
            }
            tokens.append(
                ImportLine.Token(
                    id: id, isEnvironmentKnown: try token.bool("environment_known") ?? true,
                    isReplaced: try token.bool("replaced") ?? false))
        }
        return tokens
    }

    // MARK: Members

    private mutating func fail(_ text: String) { fault = fault ?? ImportFault(text) }

    private mutating func check(
        _ text: String, _ key: String, mayBeEmpty: Bool = false, bytesMax: Int = Limits.identifierBytesMax
    ) {
        if text.isEmpty, !mayBeEmpty { fail("\(key) is empty") }
        if text.utf8.count > bytesMax { fail("\(key) is longer than \(bytesMax) bytes") }
    }

    private mutating func text(
        _ key: String, mayBeEmpty: Bool = false, bytesMax: Int = Limits.identifierBytesMax
    ) throws(JSONError) -> String {
        guard let text = try object.digits(key) else {
            fail("\(key) is missing")
            return ""
        }
        check(text, key, mayBeEmpty: mayBeEmpty, bytesMax: bytesMax)
        return text
    }

    private mutating func optionalText(_ key: String) throws(JSONError) -> String? {
        let text = try object.digits(key)
        if let text { check(text, key) }
        return text
    }

    private mutating func holder(_ outer: JSONObject, _ key: String) throws(JSONError) -> Holder? {
        guard outer.raw(key)?.first == UInt8(ascii: "{"), let object = try outer.object(key) else {
            fail("\(key) is missing; write {\"user_id\": …} or {\"anonymous_user_id\": …}")
            return nil
        }
        let (user, anonymous) = (try object.digits("user_id"), try object.digits("anonymous_user_id"))
        guard let id = user ?? anonymous, user == nil || anonymous == nil else {
            fail("\(key) must have exactly one of user_id and anonymous_user_id")
            return nil
        }
        check(id, key)
        return user == nil ? .anonymous(id) : .user(id)
    }

    /// ISO 8601, or milliseconds since 1970.
    private mutating func time(_ key: String) throws(JSONError) -> Timestamp? { try time(key, in: object) }

    private var isMarked: Bool { object.rawRange("event_name") != nil }

    private mutating func time(_ key: String, in object: JSONObject) throws(JSONError) -> Timestamp? {
        let isText = object.raw(key)?.first == UInt8(ascii: "\"")
        let time =
            isText
            ? try object.string(key).flatMap { Timestamp(iso8601: $0) }
            : try object.integer(key).map { Timestamp(milliseconds: $0) }
        if isText, time == nil {
            fail("\(key) is not a time; write 2026-11-21T10:00:00Z, or milliseconds since 1970")
        }
        // Lines that are recorded or exported may have such a time from a version that took it.
        if let time, !isMarked, !Timestamp.writable.contains(time) {
            fail("\(key) lies outside the years 0000 to 9999")
        }
        return time
    }
}
