import JSONText
import Vocabulary

@testable import Inbound

/// SplitMix64: the same numbers from the same seed, so that a failure can be run again.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension OutgoingFailure {
    /// One of the server.
    init(_ reason: String) { self.init(reason, isOfServer: true) }
}

func purchaselySource(
    authentication: Source.Authentication = .signature, secrets: [String] = ["foobar"], app: String? = nil,
    defaultEnvironment: String = "PRODUCTION", freshness: Duration? = nil
) -> Source {
    Source(
        name: "purchasely", kind: .purchasely, authentication: authentication,
        secrets: secrets.map { Secret(Array($0.utf8)) }, app: app, defaultEnvironment: defaultEnvironment,
        freshness: freshness)
}

func event(_ body: String, from source: Source = purchaselySource()) throws -> Event {
    try SourceAdapters.adapter(for: source.kind).normalise(Array(body.utf8), header: { _ in nil }, from: source)
}

/// The smallest readable body, with `fields` (raw JSON values) set in it or, where nil, taken out.
func body(_ fields: [(String, String?)] = []) -> String {
    let smallest =
        #"{"event_name":"ACTIVATE","user_id":"u1","event_created_at_ms":1636307015225,"#
        + #""purchasely_subscription_id":"subs_1","store":"APPLE_APP_STORE","store_transaction_id":"t1"}"#
    guard let object = try? JSONScan.topObject(Array(smallest.utf8), depthMax: 4) else { return "" }
    let changes = fields.map { (key: $0, change: $1.map { .set(Array($0.utf8)) } ?? JSONEdit.Change.remove) }
    return String(decoding: JSONEdit.apply(changes, to: object), as: UTF8.self)
}
