import Vocabulary

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
