/// The findings as a page for a person: area, mark and text, with what to do on a line of its own.
package enum DoctorPage {
    private static let gap = "  "
    private static let advicePrefix = "do: "
    /// Text is never broken into narrower lines than this, in characters.
    private static let leastTextWidth = 20

    /// What stands before a text of this state.
    package static func mark(_ state: DoctorFinding.State) -> String {
        switch state {
        case .fine: "ok"
        case .note: "note"
        case .wrong: "WRONG"
        case .unknown: "?"
        }
    }

    /// By area, in the order of the page; those of one area stay as they were found.
    package static func ordered(_ findings: [DoctorFinding]) -> [DoctorFinding] {
        DoctorFinding.Area.allCases.flatMap { area in findings.filter { $0.area == area } }
    }

    /// - Parameters:
    ///   - findings: `ordered`.
    ///   - width: in characters; nil: lines are not broken.
    ///   - paint: adds colour to a mark.
    package static func render(
        _ findings: [DoctorFinding], width: Int?, paint: (DoctorFinding.State, String) -> String = { _, mark in mark }
    ) -> String {
        let areaWidth = findings.reduce(0) { max($0, $1.area.rawValue.count) }
        let markWidth = DoctorFinding.State.allCases.reduce(0) { max($0, mark($1).count) }
        let indent = String(repeating: " ", count: areaWidth + gap.count + markWidth + gap.count)
        let room = width.map { max($0 - indent.count, leastTextWidth) }
        var lines: [String] = []
        var area: DoctorFinding.Area?
        for finding in findings {
            let name = finding.area == area ? "" : finding.area.rawValue
            area = finding.area
            let mark = mark(finding.state)
            let head =
                padded(name, areaWidth) + gap + paint(finding.state, mark)
                + String(repeating: " ", count: markWidth - mark.count) + gap
            let text = broken(finding.text, room)
            lines.append(head + (text.first ?? ""))
            lines += text.dropFirst().map { indent + $0 }
            if let advice = finding.advice {
                let margin = String(repeating: " ", count: advicePrefix.count)
                for (index, line) in broken(advice, room.map { $0 - advicePrefix.count }).enumerated() {
                    lines.append(indent + (index == 0 ? advicePrefix : margin) + line)
                }
            }
        }
        return (lines + ["", summary(findings)]).joined(separator: "\n")
    }

    /// `1 wrong, 2 notes, 1 unknown`; or that nothing is.
    package static func summary(_ findings: [DoctorFinding]) -> String {
        func count(_ state: DoctorFinding.State) -> Int { findings.count(where: { $0.state == state }) }
        let (wrong, notes, unknown) = (count(.wrong), count(.note), count(.unknown))
        let others = [(notes, notes == 1 ? "note" : "notes"), (unknown, "unknown")]
            .filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        return ([wrong == 0 ? "nothing is wrong" : "\(wrong) wrong"] + others).joined(separator: ", ")
    }

    /// In lines of at most `room` characters, broken at blanks. A word that is longer stays whole: it is a path or a
    /// command to copy.
    private static func broken(_ text: String, _ room: Int?) -> [String] {
        guard let room else { return [text] }
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ") {
            if !line.isEmpty, line.count + 1 + word.count > room {
                lines.append(line)
                line = ""
            }
            line += (line.isEmpty ? "" : " ") + String(word)
        }
        return lines + [line]
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}
