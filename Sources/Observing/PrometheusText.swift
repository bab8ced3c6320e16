internal import Vocabulary

/// Writes the Prometheus text format 0.0.4 (prometheus.io, "Exposition formats"): HELP and TYPE once a family, then
/// its samples, each on a line.
struct PrometheusText {
    enum Kind: String {
        case counter, gauge, histogram
    }

    private(set) var text = ""

    mutating func family(_ name: String, _ kind: Kind, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
    }

    mutating func sample(_ name: String, _ labels: [(name: String, value: String)], _ value: Int) {
        line(name, labels, String(value))
    }

    /// Precondition: `value` is finite.
    mutating func sample(_ name: String, _ labels: [(name: String, value: String)], _ value: Double) {
        line(name, labels, "\(value)")
    }

    /// One series of a histogram.
    /// - Parameter scale: what counts as 1 in the unit of its name: 1,000 for milliseconds in seconds.
    mutating func histogram(
        _ name: String, _ labels: [(name: String, value: String)], _ histogram: Histogram, scale: Int
    ) {
        func shown(_ value: Int) -> String { scale == 1 ? String(value) : "\(Double(value) / Double(scale))" }
        var seen = 0
        for (bound, count) in zip(histogram.bounds, histogram.counts) {
            seen += count
            sample(name + "_bucket", labels + [("le", shown(bound))], seen)
        }
        let all = histogram.counts.reduce(0, +)
        sample(name + "_bucket", labels + [("le", "+Inf")], all)
        line(name + "_sum", labels, shown(histogram.sum))
        sample(name + "_count", labels, all)
    }

    private mutating func line(_ name: String, _ labels: [(name: String, value: String)], _ value: String) {
        text += name
        if !labels.isEmpty {
            text += "{" + labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",") + "}"
        }
        text += " \(value)\n"
    }

    /// The format knows three escapes: backslash, double quote and newline.
    static func escaped(_ value: String) -> String {
        var out = ""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\\": out += "\\\\"
            case "\"": out += "\\\""
            case "\n": out += "\\n"
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}
