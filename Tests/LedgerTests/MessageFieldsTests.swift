import Foundation
import Testing
import Vocabulary

@testable import Ledger

/// Oracle: Foundation's JSON parser over the whole payload, and the manual.
@Suite("The fields of the standard payload that where can name")
struct MessageFieldsTests {
    private struct Sample {
        let fields: MessageFields
        /// As it is sent.
        let payload: [UInt8]
        /// As a backfill reads it.
        let stored: StoredMessageFields
    }

    private static func sample(
        _ statement: MessageEnvelope.Statement, _ purchase: Purchase?, _ transaction: Transaction?,
        decoded: String? = nil
    ) throws -> Sample {
        let scope = Scope(source: "shop", app: "app.one", environment: "SANDBOX")
        let subject = MessageEnvelope.Subject(purchase: purchase, transaction: transaction)
        let envelope = MessageEnvelope.write(
            statement, of: subject, in: scope, at: seconds(1), decoded: decoded.map { Array($0.utf8) })
        let text = String(decoding: envelope, as: UTF8.self)
        let end = try #require(text.range(of: decoded == nil ? #","original":"# : #","decoded":"#))
        return Sample(
            fields: MessageFields(statement, of: subject, in: scope, at: seconds(1)),
            payload: envelope + Array(#"{"price":1}"#.utf8) + Message.envelopeEnd,
            stored: try StoredMessageFields(Array(text[..<end.lowerBound].utf8)))
    }

    /// Every field has a value in one of the first two.
    private static func samples() throws -> [Sample] {
        let transaction = Transaction(
            storeTransactionID: "tx_1", storeOriginalTransactionID: "tx_0", purchasedAt: Timestamp(milliseconds: -1),
            effectiveNextRenewalAt: seconds(2), offerType: "INTRO", status: "AUTO_RENEWING")
        let purchase = Purchase(
            key: "subs_1", kind: .oneTime, store: "STRIPE", product: "gold", plan: "year", subscriptionID: "line_1")
        let hostile = #"a","decoded":{"original":1},"é\"#
        return [
            try sample(
                .init(
                    type: "RECEIVED", eventID: "evt_1", eventName: "activate", holder: user, resolvedUserID: "jeff",
                    transfer: ("trf_1", anonymous, user)), purchase, transaction),
            try sample(
                .init(
                    type: "TRANSFERRED", eventID: "evt_2", eventName: "deactivate", holder: anonymous,
                    resolvedUserID: nil, transfer: ("trf_2", user, anonymous)), purchase, transaction,
                decoded: #"{"deep":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]],"decoded":{}}"#),
            try sample(.init(type: "PING", eventID: "evt_3", eventName: "ping"), nil, nil),
            try sample(
                .init(
                    type: hostile, eventID: hostile, eventName: hostile, holder: .user(hostile),
                    resolvedUserID: hostile),
                Purchase(
                    key: hostile, kind: .subscription, store: hostile, product: hostile, plan: nil,
                    subscriptionID: nil), nil),
        ]
    }

    /// Members that are neither objects nor null, by their names as `where` has them.
    private static func leaves(of payload: [UInt8]) throws -> [String: Any] {
        let parsed = try JSONSerialization.jsonObject(with: Data(payload))
        var root = try #require(parsed as? [String: Any])
        var data = try #require(root.removeValue(forKey: "data") as? [String: Any])
        for name in MessageField.unnameable { data[name] = nil }
        return root.merging(flattened(data, below: "")) { first, _ in first }
    }

    private static func flattened(_ object: [String: Any], below prefix: String) -> [String: Any] {
        var all: [String: Any] = [:]
        for (key, value) in object {
            if let inner = value as? [String: Any] {
                all.merge(flattened(inner, below: prefix + key + ".")) { first, _ in first }
            } else if !(value is NSNull) {
                all[prefix + key] = value
            }
        }
        return all
    }

    @Test("Every field of the payload can be named, and every name is one")
    func complete() throws {
        let names = try Self.samples().reduce(into: Set<String>()) { names, sample in
            names.formUnion(try Self.leaves(of: sample.payload).keys)
        }
        #expect(names == Set(MessageField.allCases.map(\.rawValue)))
    }

    @Test("A field reads as the payload has it: before it is written, and from what is stored")
    func reading() throws {
        for (index, sample) in try Self.samples().enumerated() {
            let leaves = try Self.leaves(of: sample.payload)
            for field in MessageField.allCases {
                let value = leaves[field.rawValue]
                let expected = value.map { $0 as? String ?? "\($0)" }
                #expect(sample.fields.text(of: field) == expected, "\(field) of \(index)")
                let stored = try sample.stored.text(of: field)
                #expect(stored == expected, "\(field) of \(index), stored")
                if value != nil { #expect((value as? String == nil) == field.isNumber, "\(field)") }
            }
        }
    }

    @Test("The manual lists these fields and no others")
    func manual() throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "deploy/manual/posthouse-messages.7.md")
        let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n")
        let start = try #require(lines.firstIndex(of: "## Filters"))
        let section = lines[(start + 1)...].prefix { !$0.hasPrefix("## ") }
        let names = section.filter { $0.hasPrefix("|") }.flatMap { line in
            line.matches(of: /`([a-z_.]+)`/).map { String($0.1) }
        }
        #expect(names == MessageField.allCases.map(\.rawValue))
    }
}
