/// Bytes as text, in units of 1024: `12.5 GiB`.
package enum BytesText {
    package static func write(_ bytes: Int) -> String {
        guard bytes >= 1 << 10 else { return "\(bytes) B" }
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
        var scaled = Double(bytes) / 1_024
        var unit = 0
        while scaled >= 1_024, unit < units.count - 1 {
            scaled /= 1_024
            unit += 1
        }
        // Rounded down: what is left is never shown as more.
        let tenth = scaled < 100 ? ".\(Int(scaled * 10) % 10)" : ""
        return "\(Int(scaled))\(tenth) \(units[unit])"
    }
}

/// A period as text, in whole units, rounded down.
enum PeriodText {
    static func write(milliseconds: Int64) -> String {
        switch milliseconds / 1_000 {
        case ..<10: "\(milliseconds / 1_000).\(milliseconds % 1_000 / 100) s"
        case ..<120: "\(milliseconds / 1_000) s"
        case ..<7_200: "\(milliseconds / 60_000) min"
        case ..<172_800: "\(milliseconds / 3_600_000) h"
        default: "\(milliseconds / 86_400_000) days"
        }
    }
}

/// `1 table`, `2 tables`.
func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
