import Ledger
import Observing
import Postgres
import Vocabulary

/// Writes what `status` says of this daemon's sources, every few seconds. Nothing waits for it: a report that fails is
/// made up for by the next.
struct SourceReporting: Sendable {
    let pool: Pool
    let registration: Registration
    let observatory: Observatory

    /// Until it is cancelled.
    func run() async {
        var minutes = LastMinute(start: .now)
        var written: LastMinute.Counts = [:]
        var heard: Set<String> = []
        while (try? await Task.sleep(for: Limits.sourceReportInterval)) != nil {
            let (minute, sinceLast) = minutes.look(observatory.answers, at: .now)
            heard.formUnion(sinceLast.keys.filter(\.kind.isKept).map(\.source))
            // A daemon at rest writes nothing.
            guard minute != written || !heard.isEmpty else { continue }
            do {
                try await SourceReports.write(minute, heard: heard, by: registration, in: pool)
                written = minute
                heard = []
            } catch {
                // The pool reports a database that is out of reach.
                continue
            }
        }
    }
}
