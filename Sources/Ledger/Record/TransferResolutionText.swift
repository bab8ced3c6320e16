import Vocabulary

/// `PurchaseState` as stored: UTF-8 lines, tab separated, one a fact, in the canonical order.
///
///     1                                             the version of this format
///     fact    AT  gain|loss  UNTIL  revoked|-  HOLDER
///     native  AT  transferred|received  FROM  TO
///     register  AT  on|off  free|tenure  HOLDER
///     told    NUMBER  CHANGES  TRANSFERRED  RECEIVED  VOIDED,…  FROM  TO
///     forgotten  NUMBER                             only where it is not 0
///     period  AT  on|off                            only of shared ownership
///
/// Times are milliseconds since 1970. A holder is `user:ID` or `anon:ID`; in it a backslash, tab, newline and carriage
/// return are written `\\`, `\t`, `\n`, `\r`, and all else stands for itself, so that an id can be found by search.
/// Reading is strict: what this build would not write, it refuses, and never guesses.
extension PurchaseState {
    /// Bytes that are not a state: damaged, or written by another version of Posthouse.
    package struct Unreadable: Error, Equatable, CustomStringConvertible {
        /// Counted from 1. The line itself is not quoted, because it contains ids of people.
        package let line: Int
        package let reason: String

        package var description: String {
            "the stored state of a purchase cannot be read, line \(line): \(reason); was it written by a newer version?"
        }
    }

    package var bytes: [UInt8] {
        var text = LineWriter()
        text.begin("1")
        text.end()
        for fact in facts { text.write(fact) }
        for native in natives { text.write(native) }
        for register in registers { text.write(register) }
        for pair in told { text.write(pair) }
        if forgottenNumber != 0 {
            text.begin("forgotten")
            text.field(forgottenNumber)
            text.end()
        }
        if let period {
            text.begin("period")
            text.field(period.at.milliseconds)
            text.field(period.isOn ? "on" : "off")
            text.end()
        }
        return text.bytes
    }

    package init(bytes: [UInt8]) throws(Unreadable) {
        self.init()
        var number = 0
        var rank = 0
        var unshown: Int?
        var rest = bytes[...]
        while !rest.isEmpty {
            number += 1
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else {
                throw Unreadable(line: number, reason: "it does not end")
            }
            var fields = LineFields(rest[..<end], line: number)
            rest = rest[(end + 1)...]
            if number == 1 {
                try fields.version()
            } else {
                let kind = try read(&fields)
                if kind < rank { throw Unreadable(line: number, reason: "out of order") }
                rank = kind
                if kind == 4, let pair = told.last, unshown == nil, !isShown(pair) { unshown = number }
            }
            try fields.end()
        }
        if number == 0 { throw Unreadable(line: 1, reason: "empty") }
        if let unshown, !isSharedCount {
            throw Unreadable(line: unshown, reason: "a number of transfers that nothing shows")
        }
    }

    /// Reads one line after the first; returns the rank of its kind.
    private mutating func read(_ fields: inout LineFields) throws(Unreadable) -> Int {
        switch try fields.word() {
        case "fact":
            let fact = try fields.fact()
            try fields.check(facts.last.map { $0 < fact } ?? true)
            facts.append(fact)
            return 1
        case "native":
            let native = try fields.native()
            try fields.check(natives.last.map { $0 < native } ?? true)
            natives.append(native)
            return 2
        case "register":
            let register = try fields.register()
            try fields.check(registers.last.map { $0.holder < register.holder } ?? true)
            registers.append(register)
            return 3
        case "told":
            let pair = try fields.pair()
            try fields.check(told.last.map { ($0.from, $0.to) < (pair.from, pair.to) } ?? true)
            guard pair.isCount else { throw fields.unreadable("a number of transfers that nothing shows") }
            told.append(pair)
            return 4
        case "forgotten":
            let value = try fields.int()
            try fields.check(forgottenNumber == 0 && value > 0 && value <= Self.transfersMax)
            forgottenNumber = value
            return 5
        case "period":
            let read = try fields.period()
            try fields.check(period == nil)
            period = read
            return 6
        default:
            throw fields.unreadable("unknown kind of line")
        }
    }
}

extension PurchaseState {
    /// The most transfers of one pair that a stored state may count: more than any purchase has.
    static let transfersMax = 1_000_000_000

    /// Whether the pair's number is possible: what was settled, and at most one more for each fact, native webhook and
    /// void that is kept. An impossible count from a damaged row would be announced, webhook by webhook and message by
    /// message.
    private func isShown(_ pair: ToldPair) -> Bool {
        abs(pair.number - pair.settledMost) <= facts.count + natives.count + pair.voided.count
    }

    /// Whether the numbers are those of a shared purchase. Version 0.1.0 did not store what was settled of those, and
    /// they do not need it: only a new native raises a number, and by one. But nothing is settled that was not
    /// announced.
    private var isSharedCount: Bool { period != nil && told.allSatisfy { $0.settledMost <= $0.number } }
}

extension ToldPair {
    fileprivate var settledMost: Int { max(settledChanges, settledTransferred, settledReceived) }

    fileprivate var isCount: Bool {
        let counts = -PurchaseState.transfersMax...PurchaseState.transfersMax
        return [number, settledChanges, settledTransferred, settledReceived].allSatisfy(counts.contains)
    }
}

extension LineWriter {
    fileprivate mutating func write(_ fact: KeptFact) {
        begin("fact")
        field(fact.at.milliseconds)
        field(fact.kind == .gain ? "gain" : "loss")
        field(fact.until.milliseconds)
        field(fact.isRevoked ? "revoked" : "-")
        field(fact.holder)
        end()
    }

    fileprivate mutating func write(_ native: KeptNative) {
        begin("native")
        field(native.at.milliseconds)
        field(native.kind == .transferred ? "transferred" : "received")
        field(native.from)
        field(native.to)
        end()
    }

    fileprivate mutating func write(_ register: Register) {
        begin("register")
        field(register.at.milliseconds)
        field(register.isOn ? "on" : "off")
        field(register.isTenureFree ? "free" : "tenure")
        field(register.holder)
        end()
    }

    fileprivate mutating func write(_ pair: ToldPair) {
        begin("told")
        field(pair.number)
        field(pair.settledChanges)
        field(pair.settledTransferred)
        field(pair.settledReceived)
        field(pair.voided)
        field(pair.from)
        field(pair.to)
        end()
    }
}
