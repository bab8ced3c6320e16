internal import Vocabulary

// `[[integration]]`: who receives messages.

extension Check {
    mutating func integrations(_ views: [TableView], sourceNames: [String]) -> [Integration] {
        var names: [String: Span] = [:]
        let integrations = views.compactMap { view in
            let name = name(of: view, taken: &names)
            return integration(view, name: name, sourceNames: sourceNames)
        }
        if views.isEmpty {
            report.warning("no `[[integration]]`: events are kept, and sent to nobody", at: nil)
        }
        return integrations
    }

    private mutating func integration(
        _ view: TableView, name: String?, sourceNames: [String]
    ) -> Integration? {
        let allowsPrivate = boolean("allow_private", of: view) ?? false
        let url = endpoint(of: view, allowsPrivate: allowsPrivate)
        let events = events(of: view)
        let environments = environments(of: view)
        let sources = sources(of: view, known: sourceNames)
        let filter = filter(
            of: view,
            among: [
                .type: EventTypes.known.filter { type in events?.contains { $0.matches(type) } == true },
                .environment: environments.isEmpty ? Environments.known : environments,
                .source: sources.isEmpty ? sourceNames : sources,
                .purchaseKind: Purchase.Kind.allCases.map(\.rawValue),
                .status: SharedVocabulary.Status.all,
                .offerType: SharedVocabulary.Offer.all,
            ])
        let format = choice("format", of: view, as: Integration.Format.self)?.value
        let include = include(of: view, format: format ?? .standard)
        let nodes = secretNodes(of: view, isRequired: true)
        let keys = nodes.compactMap { signingKey($0, key: view["secret"] == nil ? "secrets" : "secret") }
        let headers = headers(of: view)
        let timeout = duration("timeout", of: view, in: ConfigurationLimits.attemptTimeout)
        let schedule = schedule(of: view)
        let permanent = permanent(of: view)
        let concurrency = integer("concurrency", of: view, in: 1...Limits.laneConcurrencyMax)
        let rate = rate(of: view)
        let order = choice("order", of: view, as: Integration.Order.self)?.value
        let confirmTimeout = confirmTimeout(of: view)
        let authorities = path("ca_file", of: view)
        if let authorities, readable(authorities, "ca_file"), let reason = libraries.authorities(authorities.value) {
            report.error(Quote.printable(reason), at: authorities.span)
        }
        guard let name, let url, let events else { return nil }
        if keys.count < nodes.count || headers.count < view["headers"]?.node.entries?.count ?? 0 {
            incompleteIntegrations.insert(name)
        }
        return Integration(
            name: name, url: url, events: events, environments: environments, sources: sources, filter: filter,
            format: format ?? .standard, include: include, signingKeys: keys, headers: headers,
            timeout: timeout ?? Limits.attemptTimeout, schedule: schedule, permanentStatuses: permanent,
            concurrency: concurrency ?? Limits.laneConcurrency, rate: rate, order: order ?? .purchase,
            confirmTimeout: confirmTimeout, allowsPrivateAddresses: allowsPrivate,
            certificateAuthorityFile: authorities?.value)
    }

    private mutating func endpoint(of view: TableView, allowsPrivate: Bool) -> EndpointURL? {
        guard let text = string("url", of: view) else { return nil }
        let url: EndpointURL
        do throws(EndpointError) {
            url = try EndpointText.read(text.value)
        } catch {
            let instead = error == .userInfo ? "; set `headers` with a secret instead" : ""
            report.error("`url` \(error.text)\(instead)", at: text.span)
            return nil
        }
        if !url.isTLS, !url.isLocal {
            report.warning("`url` is http://: what it is sent can be read and changed on the way", at: text.span)
        }
        warnOfRefusedHost(url, allowsPrivate: allowsPrivate, "deliveries are refused", at: text.span)
        return url
    }

    private mutating func events(of view: TableView) -> [Glob]? {
        guard let texts = strings("events", of: view) else { return nil }
        isNotEmpty("events", of: view, ": this integration would be sent nothing; [\"*\"] means all")
        for text in texts {
            guard text.value.unicodeScalars.count <= ConfigurationLimits.patternCharactersMax else {
                report.error(
                    "an event glob may have \(ConfigurationLimits.patternCharactersMax) characters", at: text.span)
                continue
            }
            let glob = Glob(text.value)
            if !EventTypes.known.contains(where: glob.matches) {
                // A guess is often wrong for a platform's own name.
                report.warning(
                    "\(Quote.value(text.value)) matches no event type that this version knows (posthouse-sources(7), "
                        + "\"Vocabulary\", lists them beside the platforms' own names, which `event_name` in `where` "
                        + "takes)" + NearMiss.suffix(text.value, among: EventTypes.known), at: text.span)
            }
        }
        return texts.map { Glob($0.value) }
    }

    private mutating func environments(of view: TableView) -> [String] {
        let texts = strings("environments", of: view) ?? []
        isNotEmpty("environments", of: view, "; leave it out for all")
        for text in texts { environmentIsKnown(text) }
        return texts.map(\.value)
    }

    private mutating func sources(of view: TableView, known: [String]) -> [String] {
        let texts = strings("sources", of: view) ?? []
        isNotEmpty("sources", of: view, "; leave it out for all")
        for text in texts { sourceIsKnown(text, among: known) }
        return texts.map(\.value)
    }

    private mutating func include(of view: TableView, format: Integration.Format) -> Set<Integration.Inclusion> {
        guard let entry = view["include"] else { return [] }
        let texts = strings("include", of: view) ?? []
        isNotEmpty("include", of: view, "; leave it out for nothing more")
        if format == .source {
            report.error(
                "`include` adds to the standard format; with `format = \"source\"` the body is the source's own",
                at: entry.node.span)
        }
        let known = Integration.Inclusion.allCases.map(\.rawValue)
        return Set(
            texts.compactMap { text -> Integration.Inclusion? in
                if let inclusion = Integration.Inclusion(rawValue: text.value) { return inclusion }
                let near = NearMiss.suffix(text.value, among: known)
                report.error(
                    "`include` must be \(view.expected("include")), not \(Quote.value(text.value))\(near)",
                    at: text.span)
                return nil
            })
    }

    /// Warns of statuses that are judged before these: any 2xx, and 410 (posthouse-messages(7), "Retries").
    private mutating func permanent(of view: TableView) -> Set<Int> {
        let statuses = integers("permanent", of: view, in: 100...599) ?? []
        for status in statuses {
            switch status.value {
            case 200...299:
                report.warning(
                    "`permanent` does nothing with \(status.value): any 2xx accepts the message", at: status.span)
            case 410:
                report.warning(
                    "`permanent` does nothing with 410: such an answer pauses the integration", at: status.span)
            default: break
            }
        }
        return Set(statuses.map(\.value))
    }

    private mutating func rate(of view: TableView) -> RateLimit? {
        guard let text = string("rate", of: view) else { return nil }
        guard let rate = RateText.read(text.value) else {
            report.error(
                "`rate` must be \(view.expected("rate")), not \(Quote.value(text.value)); the units are /s and /m",
                at: text.span)
            return nil
        }
        guard (1...Limits.rateCountMax).contains(rate.count) else {
            report.error("`rate` must be from 1 to \(Limits.rateCountMax), not \(rate.count)", at: text.span)
            return nil
        }
        return rate
    }

    /// Nil: the source's webhook is acknowledged without waiting for this integration.
    private mutating func confirmTimeout(of view: TableView) -> Duration? {
        let timeout = duration("confirm_timeout", of: view, in: ConfigurationLimits.confirmTimeout)
        if boolean("confirm", of: view) == true { return timeout ?? Limits.confirmTimeout }
        if let entry = view["confirm_timeout"], view["confirm"] == nil {
            report.warning("`confirm_timeout` without `confirm = true` does nothing", at: entry.node.span)
        }
        return nil
    }

    private mutating func schedule(of view: TableView) -> RetrySchedule {
        let gaps = durations("schedule", of: view, in: ConfigurationLimits.gap)
        if let entry = view["schedule"], let gaps, gaps.count > ConfigurationLimits.scheduleGapsMax {
            report.error(
                "`schedule` has \(gaps.count) gaps; \(ConfigurationLimits.scheduleGapsMax) are allowed",
                at: entry.node.span)
        }
        return RetrySchedule(
            gaps: gaps ?? RetrySchedule.defaultGaps,
            jitter: number("jitter", of: view, in: 0...1) ?? ConfigurationLimits.jitterDefault,
            giveUpAfter: duration("give_up_after", of: view, in: ConfigurationLimits.giveUpAfter))
    }
}

/// The types that a message can have. Others are passed on as well; a glob that matches none of these is most likely a
/// mistake.
enum EventTypes {
    static let known = StandardTypes.all + StandardTypes.relay + own

    /// Types that have no such name and keep their own: of sessions, of the API's writes, and of other events of
    /// platforms.
    private static let own = [
        "SESSION_ANONYMOUS_STARTED", "SESSION_LOGIN", "SESSION_LOGOUT", "SESSION_EXPIRED", "DATA_RESET",
        "IDENTIFIED", "LOGGED_OUT", "RESTORED", "ENTITLEMENT_GRANTED", "ENTITLEMENT_REVOKED", "USER_CREATED",
        "TRANSFER", "PURCHASE_REDEEMED", "SUBSCRIBER_ALIAS", "TEMPORARY_ENTITLEMENT_GRANT", "TEST",
        "VIRTUAL_CURRENCY_TRANSACTION",
        "access_level_updated", "trial_active", "trial_still_active", "refund_consumption", "refund_declined",
        "user_created", "paywall_shown", "paywall_closed", "paywall_checkout_initiated", "paywall_checkout_cancelled",
    ]
}
