import Glibc
import Observing

/// Rows for a terminal. A narrow one gets fewer columns and shorter texts. Output to anything else is never cut,
/// because a program may read it.
struct Table {
    struct Column {
        let title: String
        var isNumber = false
        /// The number of characters that texts may be cut down to.
        var shrinksTo: Int?
        /// The order in which columns are left out of a narrow table, the highest first; 0: never.
        var dropsFirst = 0
    }

    enum Tone: String {
        case plain = ""
        case good = "\u{1B}[32m"
        case careful = "\u{1B}[33m"
        case bad = "\u{1B}[31m"
        case faint = "\u{1B}[2m"
    }

    struct Cell {
        let text: String
        let tone: Tone

        init(_ text: String, _ tone: Tone = .plain) {
            // Text from outside must not move the cursor.
            self.text = PlainText.harmless(text)
            self.tone = tone
        }
    }

    private static let gap = 2

    let columns: [Column]
    var rows: [[Cell]] = []

    init(_ columns: [Column]) { self.columns = columns }

    /// - Parameter width: in characters; nil: unlimited.
    func render(width: Int?, coloured: Bool) -> String {
        var shown = Array(columns.indices)
        var widths = columns.indices.map { column in
            rows.reduce(columns[column].title.count) { max($0, $1[column].text.count) }
        }
        func total() -> Int { shown.reduce(-Self.gap) { $0 + widths[$1] + Self.gap } }
        if let width {
            func shrink() {
                for column in shown.sorted(by: { widths[$0] > widths[$1] }) where total() > width {
                    guard let least = columns[column].shrinksTo else { continue }
                    widths[column] = max(min(widths[column], least), widths[column] - (total() - width))
                }
            }
            let full = widths
            shrink()
            while total() > width,
                let next = shown.filter({ columns[$0].dropsFirst > 0 })
                    .max(by: { columns[$0].dropsFirst < columns[$1].dropsFirst })
            {
                shown.removeAll { $0 == next }
                widths = full
                shrink()
            }
        }
        let head = shown.map { Cell(columns[$0].title, .faint) }
        let lines = [head] + rows.map { row in shown.map { row[$0] } }
        return lines.map { line(shown, $0, widths, coloured) }.joined(separator: "\n")
    }

    private func line(_ shown: [Int], _ cells: [Cell], _ widths: [Int], _ coloured: Bool) -> String {
        var out = ""
        for (place, (column, cell)) in zip(shown, cells).enumerated() {
            let room = widths[column]
            let text = cell.text.count > room ? cell.text.prefix(max(0, room - 1)) + "…" : cell.text[...]
            let padding = String(repeating: " ", count: room - text.count)
            let painted =
                coloured && cell.tone != .plain && !text.isEmpty
                ? cell.tone.rawValue + text + "\u{1B}[0m" : String(text)
            let isLast = place == shown.count - 1
            out += columns[column].isNumber ? padding + painted : painted + (isLast ? "" : padding)
            if !isLast { out += String(repeating: " ", count: Self.gap) }
        }
        return out
    }
}

extension String {
    /// The text without the end of line that a receiver's answer often has.
    var withoutEnd: String {
        var text = self
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }
}

extension Terminal {
    static let isOutput = isatty(STDOUT_FILENO) == 1
    static let outputIsColoured = isOutput && allowsColour

    /// The width of the terminal: COLUMNS if set, else its own. Nil: no terminal, so nothing is cut.
    static var width: Int? {
        guard isOutput else { return nil }
        if let columns = getenv("COLUMNS").flatMap({ Int(String(cString: $0)) }), columns > 0 { return columns }
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// A sentence in lines that fit, all but the first indented; one line if there is no terminal.
    static func wrapped(_ text: String) -> String {
        guard let width else { return text }
        var lines: [String] = []
        var (lead, rest) = ("", text[...])
        while lead.count + rest.count > max(width, leastWidth) {
            let room = max(width, leastWidth) - lead.count
            // A space right behind the last column ends a line as well.
            let end = rest.prefix(room + 1).lastIndex(of: " ") ?? rest.index(rest.startIndex, offsetBy: room)
            lines.append(lead + rest[..<end])
            (lead, rest) = ("  ", rest[end...].drop { $0 == " " })
        }
        return (lines + [lead + rest]).joined(separator: "\n")
    }

    /// The least width that a sentence is broken to.
    private static let leastWidth = 20

    static func print(_ table: Table) { print(table.render(width: width, coloured: outputIsColoured)) }
}
