import Vocabulary

/// What the daemon of a state directory served last, as the file `serving` there has it (`ServingFile`).
struct LastServed: Sendable, Equatable {
    struct Ledger: Sendable, Equatable {
        /// `LedgerMark.text`.
        let mark: String
        let place: Location
    }

    enum Location: Sendable, Equatable {
        /// The private cluster in this directory.
        case cluster(in: String)
        /// Another database, as messages name it: without a password.
        case database(String)
    }

    /// The directory of the spool.
    let spool: String
    /// Those of earlier starts in which webhooks may still wait.
    let formerSpools: [String]
    /// nil: no start has come so far.
    let ledger: Ledger?
}

// MARK: The file

extension LastServed {
    /// A key and its value a line.
    var text: String {
        var lines = ["spool \(spool)"] + formerSpools.map { "former_spool \($0)" }
        if let ledger {
            lines.append("ledger \(ledger.mark)")
            switch ledger.place {
            case .cluster(let directory): lines.append("cluster \(directory)")
            case .database(let name): lines.append("database \(name)")
            }
        }
        return lines.map { $0.replacing("\n", with: " ") + "\n" }.joined()
    }

    /// nil: the text is in another form.
    init?(text: String) {
        var values: [String: String] = [:]
        var formerSpools: [String] = []
        for line in text.split(separator: "\n") {
            guard let space = line.firstIndex(of: " ") else { return nil }
            let (key, value) = (String(line[..<space]), String(line[line.index(after: space)...]))
            if key == "former_spool" { formerSpools.append(value) } else { values[key] = value }
        }
        guard let spool = values["spool"] else { return nil }
        guard let mark = values["ledger"] else {
            self.init(spool: spool, formerSpools: formerSpools, ledger: nil)
            return
        }
        let cluster = values["cluster"].map { Location.cluster(in: $0) }
        guard let place = cluster ?? values["database"].map({ Location.database($0) }) else { return nil }
        self.init(spool: spool, formerSpools: formerSpools, ledger: Ledger(mark: mark, place: place))
    }
}

// MARK: The spools

extension LastServed {
    /// All that are not the one that a configuration names.
    func spools(insteadOf next: String) -> [FormerSpool] {
        ([spool] + formerSpools).compactMap { FormerSpool($0, insteadOf: next) }
    }
}

// MARK: As messages have it

extension LastServed.Ledger: CustomStringConvertible {
    var description: String { "begun at \(begunAt), in \(place)" }

    private var begunAt: String {
        guard let microseconds = Int64(mark) else { return "an unknown time" }
        let time = Timestamp(milliseconds: microseconds / 1_000)
        return Timestamp.writable.contains(time) ? time.iso8601 : "an unknown time"
    }
}

extension LastServed.Location: CustomStringConvertible {
    var description: String {
        switch self {
        case .cluster(let directory): "the private cluster in \(directory)"
        case .database(let name): "the database of [database] url (\(name))"
        }
    }
}
