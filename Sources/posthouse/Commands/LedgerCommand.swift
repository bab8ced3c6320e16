import ArgumentParser
import Configuration
import JSONText
import Ledger
import Observing
import Postgres
import Vocabulary

/// Runs the commands that read the ledger or change it.
enum LedgerCommand {
    /// Runs `body` with the configuration and a pool. Errors of the database are printed with what to do about them.
    /// - Parameter requiresDurability: whether a server that may forget what it commits is refused, as the daemon
    ///   refuses it: for a command that removes from another place what it has stored.
    static func run(
        _ file: ConfigurationOption, requiresDurability: Bool = false,
        _ body: (Configuration, Pool) async throws -> Void
    ) async throws {
        let configuration = try file.load()
        try await Terminal.reporting {
            EmbeddedLedger.warnUnlessMoved(configuration)
            let settings = try DatabaseAccess.forCommand(configuration)
            let durability = requiresDurability ? configuration.database.durability : nil
            try await reaching(configuration, file) {
                try await DatabaseAccess.withPool(settings, requiring: durability) { pool in
                    try await SharedLocks.require(in: pool)
                    try await body(configuration, pool)
                }
            }
        }
    }

    /// Runs `body` and adds to errors of the database what to do about them.
    static func reaching<Value>(
        _ configuration: Configuration, _ file: ConfigurationOption, _ body: () async throws -> Value
    ) async throws -> Value {
        do {
            return try await body()
        } catch let error as DatabaseError where error.isConnectionLevel {
            throw DatabaseAccess.unreachable(error, configuration, file.path)
        } catch DatabaseError.refused(let refusal) where ["42P01", "42703"].contains(refusal.sqlState.code) {
            throw Complaint("the database has no schema, or an older one: run posthouse migrate first")
        }
    }

    /// Refuses a source that neither the configuration nor the database knows: nothing is stored under a misspelt name,
    /// which would look like success. A source that left the configuration is one that the database knows.
    static func requireSource(_ name: String?, _ configuration: Configuration, in pool: Pool) async throws {
        guard let name else { return }
        let stored = try await SourceNames.all(in: pool)
        let known = Set(configuration.sources.map(\.name) + stored)
        guard !known.contains(where: { $0.utf8.elementsEqual(name.utf8) }) else { return }
        throw unknown("source", name, known: known)
    }

    static func unknownIntegration(_ name: String, known: some Sequence<String>) -> Complaint {
        unknown("integration", name, known: known)
    }

    private static func unknown(_ kind: String, _ name: String, known: some Sequence<String>) -> Complaint {
        let names = known.sorted()
        guard !names.isEmpty else {
            return Complaint("there is no \(kind) \(name): the database and the configuration know none")
        }
        let meant = NearMiss.find(name, among: names).map { " (did you mean \($0)?)" } ?? ""
        return Complaint("there is no \(kind) \(name)\(meant); known are: \(names.joined(separator: ", "))")
    }
}

/// The option `--json`.
struct OutputOption: ParsableArguments {
    @Flag(help: "Print one JSON document instead of text.") var json = false
}

extension Terminal {
    /// Prints one JSON object. A terminal gets it without characters that would move its cursor.
    static func say(_ members: (inout JSONWriter) -> Void) {
        let text = String(decoding: JSONWriter.object(members), as: UTF8.self)
        say(isOutput ? PlainText.harmlessJSON(text) : text)
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: Timestamp?) { member(key, value?.iso8601) }
}

/// A time on the command line: an instant, a day, or how long ago.
struct TimeArgument: ExpressibleByArgument {
    let time: Timestamp

    init?(argument text: String) {
        if let duration = DurationText.read(text) {
            let seconds = duration.components.seconds
            guard seconds < 1 << 40 else { return nil }
            time = ThisProcess.now().advanced(byMilliseconds: -seconds * 1_000)
        } else if let instant = Timestamp(iso8601: text) ?? Timestamp(iso8601: text + "T00:00:00Z") {
            time = instant
        } else {
            return nil
        }
    }

    static let help: String = "2026-11-21T10:00:00Z, 2026-11-21, or how long ago: 30m, 2h, 7d."

    /// Refuses a period that ends before it begins, in which nothing can lie.
    static func validate(since: TimeArgument?, until: TimeArgument?) throws {
        guard let since, let until, until.time < since.time else { return }
        throw ValidationError("--until (\(until.time.iso8601)) is before --since (\(since.time.iso8601))")
    }
}

extension Timestamp {
    /// For a table: ISO 8601 without the milliseconds.
    var toTheSecond: String { iso8601.prefix(19) + "Z" }
}

/// A period as text: whole seconds below two minutes, whole minutes below two hours, whole hours below two days, and
/// then whole days.
enum Age {
    static func text(from start: Timestamp, to end: Timestamp) -> String {
        text(seconds: max(0, Double(end.milliseconds - start.milliseconds) / 1_000))
    }

    static func text(seconds: Double) -> String {
        switch Int(seconds) {
        case ..<120: "\(Int(seconds))s"
        case ..<7_200: "\(Int(seconds) / 60)m"
        case ..<172_800: "\(Int(seconds) / 3_600)h"
        default: "\(Int(seconds) / 86_400)d"
        }
    }
}
