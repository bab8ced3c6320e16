import ArgumentParser
import Configuration
import Vocabulary

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
