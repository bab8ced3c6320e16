package import Vocabulary

/// The environments that a request or a command can name: the two that vendors use, and those configured for sources.
package struct EnvironmentChoice: Sendable {
    /// For requests that name none.
    static let usual = "PRODUCTION"
    private static let standard = [usual, "SANDBOX"]

    private let known: [String]

    package init(_ sources: [Source]) {
        known = Self.standard + Set(sources.map(\.defaultEnvironment)).subtracting(Self.standard).sorted()
    }

    /// The environment as the ledger spells it. Case is ignored and `prod` is accepted, as for webhooks; an exact match
    /// with a configured name comes first. Nil: it is none of those. Webhooks may have named it all the same; but if
    /// any word were taken, a misspelt one would be answered as if somebody had nothing.
    package func read(_ text: String) -> String? {
        if let exact = known.first(where: { $0.utf8.elementsEqual(text.utf8) }) { return exact }
        let word = Self.lowerCased(text)
        return word == Array("prod".utf8) ? Self.usual : known.first { Self.lowerCased($0) == word }
    }

    /// For an error's message.
    package var explanation: String {
        "environment is none that is known here: \(known.joined(separator: ", ")), in any case of letters"
    }

    private static func lowerCased(_ word: String) -> [UInt8] { word.utf8.map(\.asciiLowercased) }
}
