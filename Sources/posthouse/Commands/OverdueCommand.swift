import API
import ArgumentParser
import Configuration
import JSONText
import Ledger
import Vocabulary

struct OverdueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "overdue",
        abstract: "List the purchases whose end has passed without a webhook about it, the longest overdue first.",
        discussion: """
            Their stated end, grace included, has passed, and no webhook has said that they were renewed or ended. A \
            platform often reports a renewal some time after the end; what stays here is how lost webhooks look. \
            ACCESS: active while the leeway of the source lasts, then lapsed. A webhook that comes late takes its \
            purchase off the list.
            """)

    @OptionGroup var file: ConfigurationOption
    @OptionGroup var output: OutputOption
    @Option(help: "Only of this source.", completion: NameCompletion.sources) var source: String?
    @Option(help: "Only of this environment, such as PRODUCTION, in any case of letters.") var environment: String?
    @Option(help: .init("Go on after a former list: its \"next\".", valueName: "cursor")) var after: String?
    @Option(help: "At most so many, up to 10000.") var limit: Int32 = 50

    func validate() throws {
        try ListLimit.validate(limit)
        if let after, LookupCursor(written: after) == nil {
            throw ValidationError("--after is none that was given as next")
        }
    }

    func run() async throws {
        try await LedgerCommand.run(file) { configuration, pool in
            try await LedgerCommand.requireSource(source, configuration, in: pool)
            let environment = try environment.map { try Self.read($0, configuration) }
            let page = try await OverduePurchase.read(
                source: source, environment: environment, after: after.flatMap { LookupCursor(written: $0) },
                limit: limit, leeways: Leeways(configuration.sources), from: pool)
            if output.json { return Terminal.print { write(page, into: &$0) } }
            guard !page.entries.isEmpty else { return Terminal.printToStandardError("no purchase is overdue") }
            Terminal.print(table(page.entries))
            if let next = page.next {
                Terminal.printToStandardError("the first \(limit); go on with --after \(next.written)")
            }
        }
    }

    /// The environment as the ledger spells it, by the rules of the API. One that is misspelt is refused: it would look
    /// as if nothing were overdue.
    private static func read(_ environment: String, _ configuration: Configuration) throws -> String {
        let choice = EnvironmentChoice(configuration.sources)
        guard let known = choice.read(environment) else {
            throw OperatorError("--\(choice.explanation)", code: Exit.usage)
        }
        return known
    }

    private func table(_ purchases: [OverduePurchase]) -> Table {
        var table = Table([
            .init(title: "UNTIL"), .init(title: "SOURCE", dropsFirst: 1), .init(title: "ACCESS"),
            .init(title: "HOLDER", shrinksTo: 14), .init(title: "PRODUCT", shrinksTo: 12, dropsFirst: 3),
            .init(title: "TRANSACTION", shrinksTo: 15), .init(title: "PURCHASE", shrinksTo: 15, dropsFirst: 4),
            .init(title: "ENVIRONMENT", dropsFirst: 2),
        ])
        for purchase in purchases {
            let others = purchase.holders.count > 1 ? " +\(purchase.holders.count - 1)" : ""
            table.rows.append([
                .init(purchase.writableUntil?.toTheSecond ?? "-"), .init(purchase.scope.source),
                purchase.isActive ? .init("active") : .init("lapsed", .careful),
                .init((purchase.holders.first ?? "-") + others), .init(purchase.product ?? "-"),
                .init(purchase.transaction ?? "-"), .init(purchase.purchase),
                .init(
                    purchase.scope.environment,
                    purchase.scope.environment == Source.usualEnvironment ? .plain : .faint),
            ])
        }
        return table
    }

    private func write(_ page: LookupPage<OverduePurchase>, into json: inout JSONWriter) {
        json.member("overdue", objects: page.entries) { purchase, json in
            json.member("purchase", purchase.purchase)
            json.member("source", purchase.scope.source)
            json.member("environment", purchase.scope.environment)
            json.member("app", purchase.scope.app)
            json.member("store", purchase.store)
            json.member("product", purchase.product)
            json.member("store_transaction_id", purchase.transaction)
            json.member("status", purchase.status)
            json.member("holders", strings: purchase.holders)
            json.member("until", purchase.writableUntil)
            json.member("active", purchase.isActive)
        }
        json.member("next", page.next?.written)
    }
}

extension OverduePurchase {
    /// Nil: its year does not have four digits.
    fileprivate var writableUntil: Timestamp? { Timestamp.writable.contains(until) ? until : nil }
}
