import Foundation
import Vocabulary

@testable import API
@testable import Inbound
@testable import JSONText
@testable import Ledger

/// 0: the scan, beside Foundation's parser. 1–6 and 8–10: the adapters, in the order of `SourceKind`. 7: receipts.
/// 11: Google Play, with what the API answered in the second line.
enum BodyTarget {
    static func run(_ choice: Int, _ body: [UInt8]) {
        switch choice {
        case 0: JSONTarget.run(body)
        case 7: receipt(body)
        case 11: answered(body)
        default: normalise(body, SourceKind.allCases[choice - (choice < 7 ? 1 : 2)])
        }
    }

    private static func header(_ name: String) -> String? { name.lowercased() == "webhook-id" ? "msg_fuzz" : nil }

    // MARK: Adapters

    private static func answered(_ input: [UInt8]) {
        let lines = input.split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
        if lines.count == 2 { normalise(lines[0], .googlePlay, answer: lines[1]) }
    }

    private static func normalise(_ body: [UInt8], _ kind: SourceKind, answer: [UInt8]? = nil) {
        let source = Source(
            name: "fuzz", kind: kind, authentication: .none, secrets: [], app: nil, defaultEnvironment: "PRODUCTION",
            freshness: nil, merges: true)
        let adapter = SourceAdapters.adapter(for: kind)
        if let answer = adapter.handshake(body) {
            require(strict(answer) != nil, "\(kind): a handshake is answered with something other than JSON")
        }
        let event: Event
        do throws(Unreadable) {
            event = try adapter.normalise(body, answer: answer, header: header, from: source)
        } catch {
            return requirePlain(error.reason, "\(kind): the reason for quarantine")
        }
        require(event.decoded.map { strict($0) != nil } ?? true, "\(kind): what a sealed body says is no strict JSON")
        require(event.money.map { strict($0) != nil } ?? true, "\(kind): what it says of money is no strict JSON")
        require(strict(body) != nil, "\(kind): an event was read from what is no strict JSON")
        require(event.body == body, "\(kind): the body is not kept byte for byte")
        require(event.answer == answer, "\(kind): the answer is not kept byte for byte")
        require(Timestamp.writable.contains(event.occurredAt), "\(kind): an event time that cannot be written")
        let ids = [event.name, event.type] + (event.holder.map { [$0.id] } ?? []) + event.facts.map(\.holder.id)
        require(
            ids.allSatisfy { (1...Limits.identifierBytesMax).contains($0.utf8.count) && !$0.utf8.contains(0) },
            "\(kind): an id that no index row holds")
        again(event, adapter, source)
        envelope(event)
        derived(event, adapter, source)
        resolve(event)
    }

    /// A second reading says the same: nothing hangs on chance or on the order of a hash table.
    private static func again(_ event: Event, _ adapter: any SourceAdapter, _ source: Source) {
        let answer = event.answer
        guard let second = try? adapter.normalise(event.body, answer: answer, header: header, from: source) else {
            breach("\(source.kind): the same body cannot be read a second time")
        }
        require(
            second.type == event.type && second.holder == event.holder && second.scope == event.scope
                && second.facts == event.facts && second.change == event.change && second.links == event.links
                && second.purchase == event.purchase && second.transaction == event.transaction
                && second.money == event.money,
            "\(source.kind): the same body reads differently a second time")
    }

    /// What goes out is strict JSON, the original in it as it came.
    private static func envelope(_ event: Event) {
        let statement = MessageEnvelope.Statement(
            type: event.type, eventID: event.vendorEventID ?? "evt_fuzz", eventName: event.name, holder: event.holder)
        let subject = MessageEnvelope.Subject(
            purchase: event.purchase, transaction: event.transaction, money: event.money)
        let message = MessageEnvelope.write(statement, of: subject, causedBy: event) + event.body + Message.envelopeEnd
        let data = strict(message).flatMap { try? $0.object("data") }
        require(data != nil, "an envelope is no strict JSON: \(String(decoding: message, as: UTF8.self))")
        let original = data?.raw("original").map(Array.init) ?? []
        require(original == trimmed(event.body), "the original is not in its envelope byte for byte")
    }

    /// A transfer that the relay derives from the event can be read by whoever reads the event.
    private static func derived(_ event: Event, _ adapter: any SourceAdapter, _ source: Source) {
        guard let holder = event.holder else { return }
        let transfer = DerivedTransfer(
            type: "SUBSCRIPTION_RECEIVED", from: holder, to: .user("fuzz"), eventID: "evt_derived",
            unnamedPurchase: event.purchase, unnamedTransaction: event.transaction)
        let body = adapter.derivedBody(from: event.body, stating: transfer)
        require(strict(body) != nil, "\(source.kind): a derived body is no strict JSON")
        // Nobody but the vendor makes a sealed body.
        if adapter.isSealed { return }
        do throws(Unreadable) {
            _ = try adapter.normalise(body, header: header, from: source)
        } catch {
            let text = String(decoding: body, as: UTF8.self)
            breach("\(source.kind): a derived body is no event: \(error.reason): \(text)")
        }
    }

    /// The resolution takes every fact, and what it keeps can be stored and read back.
    private static func resolve(_ event: Event) {
        var state = PurchaseState()
        for fact in event.facts {
            state = TransferResolution.resolve(state, fact, kind: event.purchase?.kind ?? .subscription).state
        }
        let again = try? PurchaseState(bytes: state.bytes)
        require(again == state, "the state of a purchase does not read back the same")
    }

    // MARK: Receipts

    private static func receipt(_ body: [UInt8]) {
        let reading: ReceiptReading
        do throws(ReceiptFault) {
            reading = try ReceiptReading.read(body)
        } catch {
            return requirePlain("\(error)", "what is wrong with a question about a receipt")
        }
        require(strict(body) != nil, "a receipt was read from what is no strict JSON")
        if case .failure(let fault) = reading.receipt { requirePlain("\(fault)", "what is wrong with a receipt") }
        for products in [[], ["premium.monthly"]] as [Set<String>] {
            _ = reading.decide(products: products, now: Timestamp(milliseconds: 1_700_000_000_000))
        }
    }

    // MARK: Words of JSON

    /// Deeper than a body may be: an envelope or a derived body puts it a few levels down.
    private static func strict(_ bytes: [UInt8]) -> JSONObject? {
        try? JSONScan.topObject(bytes, depthMax: Limits.jsonDepthMax + 8)
    }

    private static func trimmed(_ bytes: [UInt8]) -> [UInt8] {
        guard let first = bytes.firstIndex(where: { !JSONScan.isBlank($0) }),
            let last = bytes.lastIndex(where: { !JSONScan.isBlank($0) })
        else { return [] }
        return Array(bytes[first...last])
    }
}
