import Ledger
import Observing
import Postgres
import Vocabulary

/// Writes what `status` says of this daemon's sources, every few seconds. Nothing waits for it: a report that fails is
/// made up for by the next.
struct SourceReporter: Sendable {
    let pool: Pool
    let registration: Registration
    let observatory: Observatory

    /// Until it is cancelled; then once more.
    func run() async {
        var minutes = LastMinute(start: .now)
        var (written, lease): (LastMinute.Counts, Int64?) = ([:], registration.id)
        var heard: Set<String> = []
        while (try? await Task.sleep(for: Limits.sourceReportInterval)) != nil {
            let (minute, sinceLast) = minutes.look(observatory.answers, at: .now)
            heard.formUnion(sinceLast.keys.filter(\.kind.isKept).map(\.source))
            // A daemon at rest writes nothing.
            guard minute != written || lease != registration.id || !heard.isEmpty else { continue }
            do {
                lease = try await SourceReports.write(minute, heard: heard, by: registration, in: pool)
                (written, heard) = (minute, [])
            } catch {
                // The pool reports a database that is out of reach.
                continue
            }
        }
        let (minute, sinceLast) = minutes.look(observatory.answers, at: .now)
        heard.formUnion(sinceLast.keys.filter(\.kind.isKept).map(\.source))
        guard !heard.isEmpty else { return }
        let last = Task { [heard] in
            do { try await SourceReports.write(minute, heard: heard, by: registration, in: pool) } catch {}
        }
        _ = await TimeLimit.value(of: last, within: Self.lastTimeout)
    }

    /// A stop does not wait longer for the last report.
    private static let lastTimeout: Duration = .seconds(1)
}
