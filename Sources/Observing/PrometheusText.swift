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
