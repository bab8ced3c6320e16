import Crypto
import Vocabulary

/// `PurchaseState` as stored: UTF-8 lines, tab separated, one a fact, in the canonical order.
///
///     2  CHECKSUM                                   the version of this format; 16 hex digits over all other lines
///     fact    AT  gain|loss  UNTIL  revoked|-  HOLDER
///     native  AT  transferred|received  FROM  TO
///     register  AT  on|off  free|tenure  HOLDER
///     told    ORDINAL CHANGES  TRANSFERRED  RECEIVED  VOIDED,…  FROM  TO
///     forgotten  COUNT                              only where it is not 0
///     period  AT  on|off                            only of shared ownership
///     move    AT  login|all  FROM|-  TO
///     earlier  AT  on|off  HOLDER
///     named    AT  plan|product|subscription
///     own       SINCE  given|-  HOLDER              these three only in version 3
///     nameless  AT  gain|loss  UNTIL|-  revoked|-  free|tenure  HOLDER
///     name      AT  gain|loss|naming|said|given  HOLDER
///     name      AT  link  HOLDER  OWN
///     plan     gain|loss  DIGEST  AT,…  HOLDER      of those facts whose webhooks name one (`NamedPlan`)
///
/// Lines of other kinds at the end are a newer version's: they are kept as they are. Version 1 has no checksum, no
/// moves and no earlier statements; it is written while a daemon that reads nothing else lives (`LedgerForm`), with the
/// moves as facts: that daemon would judge them so. Version 3 is that of a purchase whose events may name no account,
/// whatever lives beside: versions of Posthouse that refuse it have no kind of source that makes such a purchase. For a
/// version that reads no names `said` (`LedgerForm.saidNames`), those that count are written as `gain`. Lines `plan`
/// are the last for a version that does not know them: it keeps them as those of a newer one, perhaps longer than their
/// facts, and judges each loss as if its plan were unknown.
///
/// A line `told` is an `AnnouncedPair`: ORDINAL is its last one. Times are milliseconds since 1970. A holder is
/// `user:ID` or `anon:ID`; in it a backslash, tab, newline and carriage return are written `\\`, `\t`, `\n`, `\r`, and
/// all else is written as it is, so that an id can be found by search.
/// Reading is strict: what this build would not write, it refuses, and never guesses. The checksum finds what was
/// damaged since.
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

    package var bytes: [UInt8] { bytes(.current) }

    /// - Parameter form: the newest form that every living daemon reads.
    package func bytes(_ form: LedgerForm) -> [UInt8] {
        if form == .plain, !mayLackName { return Array("1\n".utf8) + withoutMoves().lines(form) }
        return Self.sealed(version: mayLackName ? 3 : 2, lines(form))
    }

    /// Lines behind the version and their checksum.
    static func sealed(version: Int, _ lines: [UInt8]) -> [UInt8] {
        Array("\(version)\t".utf8) + checksum(lines[...]) + [UInt8(ascii: "\n")] + lines
    }

    /// The first eight bytes of the lines' SHA-256, as lower-case hex.
    private static func checksum(_ lines: ArraySlice<UInt8>) -> [UInt8] {
        let hash = SHA256.hash(data: lines).withUnsafeBytes { Identifier(rawBytes: $0) }
        return Array(hash.hex.utf8.prefix(16))
    }

    private func lines(_ form: LedgerForm) -> [UInt8] {
        var text = PurchaseStateLineWriter()
        for fact in facts { text.write(fact) }
        for native in natives { text.write(native) }
        for register in registers { text.write(register) }
        for pair in announced { text.write(pair) }
        if forgottenOrdinal != 0 {
            text.begin("forgotten")
            text.field(forgottenOrdinal)
            text.end()
        }
        if let period {
            text.begin("period")
            text.field(period.at.milliseconds)
            text.field(period.isOn ? "on" : "off")
            text.end()
        }
        for move in moves { text.write(move) }
        for register in earlier { text.write(earlier: register) }
        for value in Value.allCases { if let time = valueTimes[value] { text.write(value, at: time) } }
        for own in own { text.write(own) }
        for fact in nameless { text.write(fact) }
        for name in form < .saidNames ? namesWithoutSaid : names { text.write(name) }
        var plans = plans[...]
        while let first = plans.first {
            let alike = plans.prefix { $0.isAlike(first) }
            text.write(first, at: alike.map(\.at))
            plans = plans.dropFirst(alike.count)
        }
        return text.bytes + unknownLines
    }

    package init(bytes: [UInt8]) throws(Unreadable) {
        self.init()
        var number = 0
        var rank = 0
        var unshown: Int?
        var isChecked = false
        var rest = bytes[...]
        while !rest.isEmpty {
            number += 1
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else {
                throw Unreadable(line: number, reason: "it does not end")
            }
            let start = rest.startIndex
            var fields = PurchaseStateLineReader(rest[..<end], line: number)
            rest = rest[(end + 1)...]
            if number == 1 {
                let version = try fields.version()
                (isChecked, mayLackName) = (version > 1, version > 2)
                if isChecked, try !fields.word().utf8.elementsEqual(Self.checksum(rest)) {
                    throw Unreadable(line: 1, reason: "damaged: its checksum is another")
                }
            } else {
                guard let kind = try read(&fields) else {
                    if !isChecked { throw fields.unreadable("unknown kind of line") }
                    unknownLines = Array(bytes[start...])
                    return
                }
                if kind < rank { throw Unreadable(line: number, reason: "out of order") }
                rank = kind
                if kind == 4, !isChecked, let pair = announced.last, unshown == nil, !isShown(pair) {
                    unshown = number
                }
            }
            try fields.end()
        }
        if number == 0 { throw Unreadable(line: 1, reason: "empty") }
        if let unshown, !isSharedCount {
            throw Unreadable(line: unshown, reason: "a number of transfers that nothing shows")
        }
    }

    /// Reads one line after the first; returns the rank of its kind, nil if this version does not know it.
    private mutating func read(_ fields: inout PurchaseStateLineReader) throws(Unreadable) -> Int? {
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
            try fields.check(announced.last.map { ($0.from, $0.to) < (pair.from, pair.to) } ?? true)
            guard pair.isCount else { throw fields.unreadable("a number of transfers that nothing shows") }
            announced.append(pair)
            return 4
        case "forgotten":
            let value = try fields.int()
            try fields.check(forgottenOrdinal == 0 && value > 0 && value <= Self.transfersMax)
            forgottenOrdinal = value
            return 5
        case "period":
            let read = try fields.period()
            try fields.check(period == nil)
            period = read
            return 6
        case "move":
            let move = try fields.move()
            try fields.check(moves.last.map { $0 < move } ?? true)
            moves.append(move)
            return 7
        case "earlier":
            let register = try fields.earlier()
            try fields.check(earlier.last.map { $0 < register } ?? true)
            earlier.append(register)
            return 8
        case "named":
            let (at, value) = try fields.named()
            try fields.check(valueTimes.keys.allSatisfy { $0.rawValue < value.rawValue })
            valueTimes[value] = at
            return 9
        case "own" where mayLackName:
            let read = try fields.own()
            try fields.check(own.last.map { $0.holder < read.holder } ?? true)
            own.append(read)
            return 10
        case "nameless" where mayLackName:
            let fact = try fields.nameless()
            try fields.check(nameless.last.map { $0 < fact } ?? true)
            nameless.append(fact)
            return 11
        case "name" where mayLackName:
            let name = try fields.name()
            try fields.check(names.last.map { $0 < name } ?? true)
            names.append(name)
            return 12
        case "plan":
            let (first, times) = try fields.plan()
            try fields.check(plans.last.map { $0 < first && !$0.isAlike(first) } ?? true)
            plans += times.map { NamedPlan(holder: first.holder, kind: first.kind, digest: first.digest, at: $0) }
            return 13
        default: return nil
        }
    }
}

extension PurchaseState {
    /// The most transfers of one pair that a stored state may count: more than any purchase has.
    static let transfersMax = 1_000_000_000

    /// Whether the numbers are possible.
    var areCountsShown: Bool { announced.allSatisfy(isShown) || isSharedCount }

    /// Whether the pair's number is possible: what was settled, and at most one more for each fact, native webhook and
    /// void that is kept; a move is a transfer, and a gain and a loss. An impossible count from a damaged row would be
    /// announced, webhook by webhook and message by message.
    private func isShown(_ pair: AnnouncedPair) -> Bool {
        let stated = facts.count + natives.count + nameless.count + 3 * moves.count
        return abs(pair.lastOrdinal - pair.settledMost) <= stated + pair.voided.count
    }

    /// Whether the numbers are those of a shared purchase. Version 0.1.0 did not store what was settled of those, and
    /// they do not need it: only a new native raises a number, and by one. But nothing is settled that was not
    /// announced.
    private var isSharedCount: Bool { period != nil && announced.allSatisfy { $0.settledMost <= $0.lastOrdinal } }
}

extension AnnouncedPair {
    fileprivate var settledMost: Int { max(settledChanges, settledTransferred, settledReceived) }

    fileprivate var isCount: Bool {
        let counts = -PurchaseState.transfersMax...PurchaseState.transfersMax
        return [lastOrdinal, settledChanges, settledTransferred, settledReceived].allSatisfy(counts.contains)
    }
}

extension PurchaseStateLineWriter {
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

    fileprivate mutating func write(_ move: KeptMove) {
        begin("move")
        field(move.at.milliseconds)
        field(move.isLogin ? "login" : "all")
        if let from = move.from { field(from) } else { field("-") }
        field(move.to)
        end()
    }

    fileprivate mutating func write(_ value: PurchaseState.Value, at time: Timestamp) {
        begin("named")
        field(time.milliseconds)
        switch value {
        case .plan: field("plan")
        case .product: field("product")
        case .subscription: field("subscription")
        }
        end()
    }

    fileprivate mutating func write(earlier register: Register) {
        begin("earlier")
        field(register.at.milliseconds)
        field(register.isOn ? "on" : "off")
        field(register.holder)
        end()
    }

    fileprivate mutating func write(_ own: OwnHolder) {
        begin("own")
        field(own.since.milliseconds)
        field(own.isGiven ? "given" : "-")
        field(own.holder)
        end()
    }

    fileprivate mutating func write(_ fact: NamelessFact) {
        begin("nameless")
        field(fact.at.milliseconds)
        field(fact.kind == .gain ? "gain" : "loss")
        if let until = fact.until { field(until.milliseconds) } else { field("-") }
        field(fact.isRevoked ? "revoked" : "-")
        field(fact.isTenureFree ? "free" : "tenure")
        field(fact.holder)
        end()
    }

    fileprivate mutating func write(_ name: HolderName) {
        begin("name")
        field(name.at.milliseconds)
        switch name.kind {
        case .given: field("given")
        case .link: field("link")
        case .naming: field("naming")
        case .said: field("said")
        case .loss: field("loss")
        case .gain: field("gain")
        }
        field(name.holder)
        if let about = name.about { field(about) }
        end()
    }

    fileprivate mutating func write(_ plan: NamedPlan, at times: [Timestamp]) {
        begin("plan")
        field(plan.kind == .gain ? "gain" : "loss")
        field(plan.digest)
        field(times)
        field(plan.holder)
        end()
    }

    fileprivate mutating func write(_ pair: AnnouncedPair) {
        begin("told")
        field(pair.lastOrdinal)
        field(pair.settledChanges)
        field(pair.settledTransferred)
        field(pair.settledReceived)
        field(pair.voided)
        field(pair.from)
        field(pair.to)
        end()
    }
}
