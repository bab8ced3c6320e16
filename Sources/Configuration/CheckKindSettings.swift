internal import Vocabulary

// Checks the keys of `[[source]]` that only one kind has.

extension Check {
    /// The settings of one kind. Where the kind itself is wrong, the keys are checked for their form only.
    mutating func kindSettings(of view: TableView, _ kind: SourceKind?) -> KindSettings {
        let apple = appleSettings(of: view, kind)
        let stripe = stripeSettings(of: view, kind)
        let googlePlay = googlePlaySettings(of: view, kind)
        return switch kind {
        case .apple: .apple(apple)
        case .stripe: .stripe(stripe)
        case .googlePlay: .googlePlay(googlePlay)
        case .purchasely, .qonversion, .apphud, .revenuecat, .adapty, .sessions, nil: .none
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
                    "\(Quote.value(text.value)) is not a bundle id: it has 1 to \(BundleID.charactersMax) of "
                        + "A-Z a-z 0-9 . -", at: text.span)
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
                    "\(Quote.value(text.value)) is not a fingerprint: write \"sha256:\" and 64 hex digits, with or "
                        + "without colons, as `openssl x509 -noout -fingerprint -sha256` prints them", at: text.span)
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

    // MARK: google-play

    private mutating func googlePlaySettings(of view: TableView, _ kind: SourceKind?) -> GooglePlaySettings {
        for key in ["packages", "audience", "sender", "keys", "api", "api_url", "allow_private", "account_id"] {
            hasMeaning(key, of: view, kind, for: .googlePlay)
        }
        if kind == .googlePlay {
            for key in ["packages", "audience", "sender"] where view[key] == nil {
                report.error(
                    "`\(view.table.header)` of kind `google-play` needs `\(key)`: \(view.expected(key))", at: view.span)
            }
        }
        let packages = packages(of: view)
        let audiences = audiences(of: view)
        let sender = sender(of: view)
        let allowsPrivate = boolean("allow_private", of: view) ?? false
        let keys = keySet(of: view, allowsPrivate: allowsPrivate)
        let api = api(of: view, allowsPrivate: allowsPrivate)
        let accountID = choice("account_id", of: view, as: AccountNaming.self)?.value
        return GooglePlaySettings(
            packages: packages, audiences: audiences, sender: sender ?? "", accountID: accountID ?? .user,
            keys: keys ?? .url(GooglePlaySettings.usualKeys, allowsPrivateAddresses: allowsPrivate), api: api)
    }

    private mutating func packages(of view: TableView) -> [String] {
        isNotEmpty("packages", of: view, ", so no notification could be read")
        var packages: [String] = []
        for text in strings("packages", of: view) ?? [] {
            if PackageName.isWellFormed(text.value) {
                packages.append(text.value)
            } else {
                report.error(
                    "\(Quote.value(text.value)) is not a package name: it has 1 to \(PackageName.charactersMax) of "
                        + "A-Z a-z 0-9 . _", at: text.span)
            }
        }
        return packages
    }

    /// Several while it is changed at Google: a token lives for an hour.
    private mutating func audiences(of view: TableView) -> [String] {
        if let entry = view["audience"], case .array = entry.node.value {
            isNotEmpty("audience", of: view, ", so no webhook would be authentic")
            return (strings("audience", of: view) ?? []).map(\.value)
        }
        return string("audience", of: view).map { [$0.value] } ?? []
    }

    private mutating func sender(of view: TableView) -> String? {
        guard let text = string("sender", of: view) else { return nil }
        guard ServiceAccountAddress.isWellFormed(text.value) else {
            report.error(
                "`sender` must be \(view.expected("sender")), not \(Quote.value(text.value))", at: text.span)
            return nil
        }
        return text.value
    }

    /// Nil: it is left out, or wrong.
    private mutating func keySet(of view: TableView, allowsPrivate: Bool) -> KeySetLocation? {
        guard let entry = view["keys"] else { return nil }
        guard entry.node.entries != nil else {
            return storeURL("keys", of: view, allowsPrivate: allowsPrivate)
                .map { .url($0.value, allowsPrivateAddresses: allowsPrivate) }
        }
        guard let inner = self.view(of: entry.node, Schema.keySet), let file = path("file", of: inner) else {
            return nil
        }
        readableKeys(file)
        return .file(path: file.value)
    }

    private mutating func api(of view: TableView, allowsPrivate: Bool) -> StoreAPI? {
        let url = storeURL("api_url", of: view, allowsPrivate: allowsPrivate)
        if let url, url.value.target != "/" {
            report.error("`api_url` must end after the host: the relay adds the path itself", at: url.span)
        }
        guard let entry = view["api"] else {
            if let entry = view["api_url"] {
                report.error("`api_url` means nothing without `api`; remove it", at: entry.keySpan)
            }
            return nil
        }
        return StoreAPI(
            account: secret(entry.node, key: "api"), url: url?.value ?? GooglePlaySettings.usualAPI,
            allowsPrivateAddresses: allowsPrivate)
    }

    /// A URL that the relay asks, and whose answer decides who has access.
    private mutating func storeURL(_ key: String, of view: TableView, allowsPrivate: Bool) -> Located<EndpointURL>? {
        guard let text = string(key, of: view) else { return nil }
        let url: EndpointURL
        do throws(EndpointError) {
            url = try EndpointText.read(text.value)
        } catch {
            report.error("`\(key)` \(error.text)", at: text.span)
            return nil
        }
        if !url.isTLS, !url.isLocal {
            report.error(
                "`\(key)` must begin with https://: whoever is on the way could decide who has access", at: text.span)
        }
        warnOfRefusedHost(url, allowsPrivate: allowsPrivate, "it is not asked", at: text.span)
        return Located(value: url, span: text.span)
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
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || ".-".utf8.contains($0) }
    }
}

/// The name of an Android app (developer.android.com/build/configure-app-module, "Set the application ID").
private enum PackageName {
    static let charactersMax = 255

    static func isWellFormed(_ text: String) -> Bool {
        (1...charactersMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "._".utf8.contains($0) }
    }
}

/// The address that names a service account.
private enum ServiceAccountAddress {
    /// A name and a domain, without a blank: what else it may hold is Google's.
    static func isWellFormed(_ text: String) -> Bool {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { !$0.isEmpty } && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
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
