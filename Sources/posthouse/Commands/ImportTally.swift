import Configuration
import JSONText
import Ledger
import Observing
import Vocabulary

/// What became of the lines of an import.
struct ImportTally {
    typealias Numbered = (number: Int, line: ImportLine)

    private let source: Source
    private let path: String
    private let isDry: Bool
    private var lines = 0
    private var ofOthers = 0
    /// Lines of an export by their app, where it is not the source's. They are taken, but no webhook meets them now.
    private var otherApps: [String: Int] = [:]
    private var recorded = 0
    private var known = 0
    private var new = 0
    private var same = 0
    private var different = 0
    /// Lines that were left out.
    private(set) var left = 0
    /// Those of them that the database did not serve.
    private var failed = 0
    /// The first `Limits.importFaultsMax` of them.
    private var faults: [(number: Int, reason: String)] = []

    init(source: Source, path: String, isDry: Bool) {
        self.source = source
        self.path = path
        self.isDry = isDry
    }

    /// Reads lines.
    /// - Returns: those that are to be recorded.
    mutating func read(_ batch: [LineFile.Line], at now: Timestamp) -> [Numbered] {
        var numbered: [Numbered] = []
        for line in batch {
            lines += 1
            guard let bytes = line.bytes else {
                leaveOut(line.number, "longer than \(Limits.importLineBytesMax) bytes")
                continue
            }
            do throws(ImportFault) {
                let read = try ImportLine.read(bytes)
                if !read.line.scope.source.utf8.elementsEqual(source.name.utf8) {
                    ofOthers += 1
                } else if let fault = read.line.fault(at: now) ?? read.mismatch(with: source) {
                    leaveOut(line.number, fault)
                } else {
                    let app = read.line.scope.app
                    if let own = source.appOfAll, !own.utf8.elementsEqual(app.utf8) {
                        otherApps[app, default: 0] += 1
                    }
                    numbered.append((line.number, read.line))
                }
            } catch {
                leaveOut(line.number, "\(error)")
            }
        }
        return numbered
    }

    mutating func add(_ outcomes: [Importer.Outcome], of lines: [Numbered]) {
        for (outcome, numbered) in zip(outcomes, lines) {
            switch outcome {
            case .recorded: recorded += 1
            case .known: known += 1
            case .setAside(let reason): leaveOut(numbered.number, "it waits in quarantine: \(reason)")
            case .refused(let reason): leaveOut(numbered.number, reason)
            case .failed(let reason):
                failed += 1
                leaveOut(numbered.number, reason)
            }
        }
    }

    /// Why the import ends before its last line; nil: it goes on.
    var problem: String? {
        guard failed >= Limits.importFailedMax else { return nil }
        return "it ended there: the database did not store \(failed) lines; once it does, begin the import again"
    }

    mutating func add(_ comparisons: [ImportComparison]) {
        for comparison in comparisons {
            switch comparison {
            case .new: new += 1
            case .same: same += 1
            case .different: different += 1
            }
        }
    }

    private mutating func leaveOut(_ number: Int, _ reason: String) {
        left += 1
        if faults.count < Limits.importFaultsMax { faults.append((number, reason)) }
    }

    // MARK: Text

    /// Lists the lines that were left out, and says how many are of another app.
    func printFaults() {
        for (number, reason) in faults {
            Terminal.printToStandardError(PlainText.harmless("\(path):\(number): \(reason)"))
        }
        if left > faults.count {
            Terminal.printToStandardError("and \(left - faults.count) more, which are not listed")
        }
        for (app, count) in otherApps.sorted(by: { $0.key < $1.key }) {
            let subject = count == 1 ? "1 line is" : "\(count) lines are"
            let text = """
                \(subject) of the app "\(app)": webhooks of \(source.name) come as of "\(source.appOfAll ?? "")", and do \
                not meet these purchases; put the source's app right, unless it was changed on purpose
                """
            Terminal.printToStandardError(PlainText.harmless(text))
        }
    }

    var text: String {
        let counts =
            isDry
            ? ["\(new) new", "\(same) the same", "\(different) different"]
            : ["\(recorded) recorded", "\(known) known before"]
        let others = ofOthers > 0 ? ["\(ofOthers) of other sources"] : []
        let out = left > 0 ? ["\(left) left out"] : []
        return "\(lines) \(lines == 1 ? "line" : "lines"): " + (counts + others + out).joined(separator: ", ")
    }

    func write(into json: inout JSONWriter) {
        json.member("source", source.name)
        json.member("dry_run", isDry)
        json.member("lines", lines)
        if isDry {
            json.member("new", new)
            json.member("same", same)
            json.member("different", different)
        } else {
            json.member("recorded", recorded)
            json.member("known", known)
        }
        json.member("other_sources", ofOthers)
        json.member("other_app", otherApps.values.reduce(0, +))
        json.member("left_out", left)
        json.member("faults", objects: faults) { fault, json in
            json.member("line", fault.number)
            json.member("reason", fault.reason)
        }
    }
}

extension Source {
    /// The app that all webhooks come as; nil: each names its own.
    fileprivate var appOfAll: String? { app ?? (kind.traits.namesApp ? nil : "") }
}

extension ReadImportLine {
    /// Why no webhook would meet the line: the source's webhooks are of another app, or stored with another spelling of
    /// the environment or the store. Nil: a webhook would, or the line is an export's, with the ledger's own spellings
    /// and perhaps an app that the source had before.
    fileprivate func mismatch(with source: Source) -> String? {
        if isMarked { return nil }
        if let app = source.appOfAll, !app.utf8.elementsEqual(line.scope.app.utf8) {
            return "the app of the source \(source.name) is \"\(app)\""
        }
        let environment = SharedVocabulary.environment(line.scope.environment)
        if !environment.utf8.elementsEqual(line.scope.environment.utf8),
            source.environment?.utf8.elementsEqual(line.scope.environment.utf8) != true
        {
            return "the environment is written \"\(environment)\""
        }
        guard case .purchase(let stated) = line.subject else { return nil }
        let store = SharedVocabulary.store(stated.purchase.store)
        return store.utf8.elementsEqual(stated.purchase.store.utf8) ? nil : "the store is written \"\(store)\""
    }
}

extension ImportLine {
    /// Why the line cannot be recorded now; nil: it can.
    func fault(at now: Timestamp) -> String? {
        if latestTime > now.advanced(byMilliseconds: Limits.importAhead.wholeMilliseconds) {
            return "it is as of a time to come, and would go before every webhook until then"
        }
        return nil
    }
}
