internal import Vocabulary

// `[[subscription_group]]` and `[[api_token]]`: what the app's backend may look up, and by which token.

extension Check {
    mutating func subscriptionGroups(_ views: [TableView]) -> [SubscriptionGroup] {
        var names: [String: Span] = [:]
        var taken: [String: (group: String?, header: Span, span: Span)] = [:]
        return views.compactMap { view in
            let name = name(of: view, taken: &names)
            let products = products(of: view, group: name, taken: &taken)
            return name.map { SubscriptionGroup(name: $0, products: products) }
        }
    }

    /// The products of a group. A store gives an introductory offer once for each group, so a product may be in one
    /// only.
    private mutating func products(
        of view: TableView, group: String?, taken: inout [String: (group: String?, header: Span, span: Span)]
    ) -> [String] {
        guard let texts = strings("products", of: view) else { return [] }
        isNotEmpty("products", of: view, ": name the products that share one introductory offer")
        var products: [String] = []
        for text in texts {
            guard text.value.utf8.count <= Limits.identifierBytesMax else {
                report.error("a product id may have \(Limits.identifierBytesMax) bytes", at: text.span)
                continue
            }
            guard let first = taken[text.value] else {
                taken[text.value] = (group, view.span, text.span)
                products.append(text.value)
                continue
            }
            let product = Quote.value(text.value)
            if first.header == view.span {
                report.warning("the product \(product) is already in this group", at: text.span)
            } else {
                let other = first.group.map { "the group `\($0)`" } ?? "another `\(view.table.header)`"
                report.error(
                    "the product \(product) is already in \(other)", at: text.span,
                    note: ("it is here first", first.span))
            }
        }
        return products
    }

    mutating func apiTokens(_ views: [TableView], sourceNames: [String]) -> [APIToken] {
        var names: [String: Span] = [:]
        var taken: [Secret: Span] = [:]
        return views.compactMap { view in
            let name = name(of: view, taken: &names)
            let token = token(of: view, taken: &taken)
            let scopes = scopes(of: view)
            let source = string("source", of: view)
            if let source { sourceIsKnown(source, among: sourceNames) }
            guard let name, let token else { return nil }
            return APIToken(name: name, token: token, scopes: scopes, source: source?.value)
        }
    }

    /// A token that can follow "Bearer " in a header. RFC 6750 §2.1 allows fewer characters, but no proxy checks that.
    private mutating func token(of view: TableView, taken: inout [Secret: Span]) -> Secret? {
        guard let node = view["token"]?.node, let token = secret(node, key: "token") else { return nil }
        let (bytes, isVisible) = token.withBytes { ($0.count, $0.allSatisfy { (0x21...0x7E).contains($0) }) }
        guard isVisible else {
            report.error(
                "`token` must be of visible ASCII characters, without blanks and line breaks: this one cannot be sent",
                at: node.span)
            return nil
        }
        guard bytes <= ConfigurationLimits.tokenBytesMax else {
            report.error("`token` may have \(ConfigurationLimits.tokenBytesMax) bytes, not \(bytes)", at: node.span)
            return nil
        }
        if bytes < ConfigurationLimits.tokenBytesSafe {
            report.warning(
                "`token` has \(bytes) byte\(bytes == 1 ? "" : "s") and can be guessed; "
                    + "better \(ConfigurationLimits.tokenBytesSafe) or more, at random",
                at: node.span)
        }
        if let first = taken[token] {
            report.error(
                "this `token` is the same as another's: each `\(view.table.header)` needs its own", at: node.span,
                note: ("the first one is here", first))
            return nil
        }
        taken[token] = node.span
        return token
    }

    private mutating func scopes(of view: TableView) -> Set<APIToken.Scope> {
        guard let texts = strings("scopes", of: view) else { return [] }
        isNotEmpty("scopes", of: view, ": this token would be good for nothing")
        var scopes: Set<APIToken.Scope> = []
        for text in texts {
            if let scope = APIToken.Scope(rawValue: text.value) {
                scopes.insert(scope)
            } else {
                let near = NearMiss.suffix(text.value, among: APIToken.Scope.allCases.map(\.rawValue))
                report.error(
                    "`scopes` must be \(view.expected("scopes")), not \(Quote.value(text.value))\(near)", at: text.span)
            }
        }
        return scopes
    }

    /// Reports a `source`, or a member of `sources`, that the file does not set up.
    mutating func sourceIsKnown(_ name: Located<String>, among known: [String]) {
        guard !known.contains(name.value) else { return }
        report.error(
            "no `[[source]]` has the name \(Quote.value(name.value))\(NearMiss.suffix(name.value, among: known))",
            at: name.span)
    }
}
