internal import Vocabulary

// Checks the keys of `[[source]]` that only one kind has.

extension Check {
    /// The settings of one kind. Where the kind itself is wrong, the keys are checked for their form only.
    mutating func kindSettings(of view: TableView, _ kind: SourceKind?) -> KindSettings {
        let apple = appleSettings(of: view, kind)
        let stripe = stripeSettings(of: view, kind)
        return switch kind {
        case .apple: .apple(apple)
        case .stripe: .stripe(stripe)
        case .purchasely, .qonversion, .apphud, .revenuecat, .adapty, .sessions, .googlePlay, nil: .none
        }
    }

    // MARK: apple

    private mutating func appleSettings(of view: TableView, _ kind: SourceKind?) -> AppleSettings {
        for key in ["bundle_ids", "roots", "account_token"] { hasMeaning(key, of: view, kind, for: .apple) }
        let bundleIDs = bundleIDs(of: view, kind)
        let roots = roots(of: view)
        let accountToken = choice("account_token", of: view, as: AccountNaming.self)?.value
        return AppleSettings(
            bundleIDs: bundleIDs, roots: roots ?? [AppleSettings.appleRoot], accountToken: accountToken ?? .user)
    }

    /// Without it every developer's notifications would be authentic.
    private mutating func bundleIDs(of view: TableView, _ kind: SourceKind?) -> [String] {
        if kind == .apple, view["bundle_ids"] == nil {
            report.error(
                "`\(view.table.header)` of kind `apple` needs `bundle_ids`: \(view.expected("bundle_ids"))",
                at: view.span)
        }
        isNotEmpty("bundle_ids", of: view, ", so no notification would be authentic")
        var bundleIDs: [String] = []
        for text in strings("bundle_ids", of: view) ?? [] {
            if BundleID.isWellFormed(text.value) {
                bundleIDs.append(text.value)
            } else {
                report.error(
                    "\(Quote.value(text.value)) is no bundle id: it has 1 to \(BundleID.charactersMax) of A-Z a-z 0-9 . -",
                    at: text.span)
            }
        }
        return bundleIDs
    }

    private mutating func roots(of view: TableView) -> [[UInt8]]? {
        isNotEmpty("roots", of: view, "; leave it out for Apple's own root certificate")
        guard let texts = strings("roots", of: view) else { return nil }
        var roots: [[UInt8]] = []
        for text in texts {
            if let root = Fingerprint.read(text.value) {
                roots.append(root)
            } else {
                report.error(
                    "\(Quote.value(text.value)) is no fingerprint: write \"sha256:\" and 64 hex digits, with or without "
                        + "colons, as `openssl x509 -noout -fingerprint -sha256` prints them", at: text.span)
            }
        }
        return roots
    }

    // MARK: stripe

    private mutating func stripeSettings(of view: TableView, _ kind: SourceKind?) -> StripeSettings {
        hasMeaning("user_key", of: view, kind, for: .stripe)
        let userKey = identifier("user_key", of: view)?.value
        return StripeSettings(userKey: userKey ?? StripeSettings.usualUserKey)
    }

    /// An error for a key that is there and belongs to another kind.
    private mutating func hasMeaning(_ key: String, of view: TableView, _ kind: SourceKind?, for owner: SourceKind) {
        guard let entry = view[key], let kind, kind != owner else { return }
        report.error(
            "`\(key)` means nothing for kind `\(kind.rawValue)`, only for `\(owner.rawValue)`; remove it",
            at: entry.keySpan)
    }
}

/// The identifier of an app (developer.apple.com/documentation/bundleresources/information-property-list,
/// "CFBundleIdentifier").
private enum BundleID {
    static let charactersMax = 255

    static func isWellFormed(_ text: String) -> Bool {
        (1...charactersMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}

/// A certificate's fingerprint in the configuration.
private enum Fingerprint {
    private static let prefix = "sha256:"
    /// Of SHA-256.
    private static let bytesCount = 32

    /// Nil unless it is the prefix and the hex digits of 32 bytes, in either case, with colons between all bytes or
    /// between none.
    static func read(_ text: String) -> [UInt8]? {
        guard text.utf8.starts(with: prefix.utf8) else { return nil }
        let digits = Array(text.utf8.dropFirst(prefix.utf8.count))
        let hasColons = digits.contains(UInt8(ascii: ":"))
        let width = hasColons ? 3 : 2
        guard digits.count == bytesCount * width - (hasColons ? 1 : 0) else { return nil }
        var bytes: [UInt8] = []
        for start in stride(from: 0, to: digits.count, by: width) {
            guard let high = Identifier.value(ofHexDigit: digits[start]),
                let low = Identifier.value(ofHexDigit: digits[start + 1]),
                start + 2 == digits.count || !hasColons || digits[start + 2] == UInt8(ascii: ":")
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }
}
