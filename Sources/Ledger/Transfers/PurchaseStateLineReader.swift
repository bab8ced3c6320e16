import Vocabulary

/// The fields of one line, taken in order.
struct PurchaseStateLineReader {
    private let line: Int
    private var rest: ArraySlice<UInt8>
    private var isAtEnd = false

    init(_ bytes: ArraySlice<UInt8>, line: Int) {
        rest = bytes
        self.line = line
    }

    func unreadable(_ reason: String) -> PurchaseState.Unreadable {
        PurchaseState.Unreadable(line: line, reason: reason)
    }

    func check(_ isInOrder: Bool) throws(PurchaseState.Unreadable) {
        if !isInOrder { throw unreadable("out of order") }
    }

    /// Reads the version: the second and third have a checksum.
    mutating func version() throws(PurchaseState.Unreadable) -> Int {
        let version = try int()
        guard 1...3 ~= version else { throw unreadable("not of version 1, 2 or 3") }
        return version
    }

    /// The next field, which stays the next.
    func peek() throws(PurchaseState.Unreadable) -> String {
        var copy = self
        return try copy.word()
    }

    func end() throws(PurchaseState.Unreadable) {
        if !isAtEnd { throw unreadable("more fields than expected") }
    }

    mutating func word() throws(PurchaseState.Unreadable) -> String {
        if isAtEnd { throw unreadable("fewer fields than expected") }
        let end = rest.firstIndex(of: UInt8(ascii: "\t")) ?? rest.endIndex
        guard let text = String(validating: rest[..<end], as: UTF8.self) else { throw unreadable("not UTF-8") }
        isAtEnd = end == rest.endIndex
        rest = isAtEnd ? [] : rest[(end + 1)...]
        return text
    }

    mutating func int<Integer: FixedWidthInteger>(
        as type: Integer.Type = Int.self
    ) throws(PurchaseState.Unreadable) -> Integer {
        try int(word())
    }

    /// Reads a number in its written form only: no plus sign, no leading zero.
    private func int<Integer: FixedWidthInteger>(_ text: String) throws(PurchaseState.Unreadable) -> Integer {
        guard let value = Integer(text), text == String(value) else { throw unreadable("not a number") }
        return value
    }

    private mutating func time() throws(PurchaseState.Unreadable) -> Timestamp {
        Timestamp(milliseconds: try int(as: Int64.self))
    }

    /// Reads a list, which may be empty.
    private mutating func times() throws(PurchaseState.Unreadable) -> [Timestamp] {
        let list = try word()
        var times: [Timestamp] = []
        if list.isEmpty { return times }
        for text in list.split(separator: ",", omittingEmptySubsequences: false) {
            times.append(Timestamp(milliseconds: try int(String(text))))
        }
        return times
    }

    /// Whether the next field is the first of two words; any other word is an error.
    private mutating func isFirst(_ first: String, or second: String) throws(PurchaseState.Unreadable) -> Bool {
        let word = try word()
        guard word == first || word == second else { throw unreadable("neither \(first) nor \(second)") }
        return word == first
    }

    /// Reads a holder byte by byte: by String's own prefix rules, an id that starts with a combining mark has no
    /// prefix.
    private mutating func holder() throws(PurchaseState.Unreadable) -> Holder {
        let text = Array(try word().utf8)
        let id = try unescaped(text.dropFirst(5))
        switch text.prefix(5) {
        case ArraySlice("user:".utf8): return .user(id)
        case ArraySlice("anon:".utf8): return .anonymous(id)
        default: throw unreadable("not a holder")
        }
    }

    private func unescaped(_ text: ArraySlice<UInt8>) throws(PurchaseState.Unreadable) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var iterator = text.makeIterator()
        while let byte = iterator.next() {
            if byte == UInt8(ascii: "\r") { throw unreadable("a control character that is not escaped") }
            guard byte == UInt8(ascii: "\\") else {
                bytes.append(byte)
                continue
            }
            switch iterator.next() {
            case UInt8(ascii: "\\"): bytes.append(UInt8(ascii: "\\"))
            case UInt8(ascii: "t"): bytes.append(UInt8(ascii: "\t"))
            case UInt8(ascii: "n"): bytes.append(UInt8(ascii: "\n"))
            case UInt8(ascii: "r"): bytes.append(UInt8(ascii: "\r"))
            default: throw unreadable("an unknown escape")
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Whole lines

    mutating func fact() throws(PurchaseState.Unreadable) -> KeptFact {
        let at = try time()
        let kind: KeptFact.Kind = try isFirst("gain", or: "loss") ? .gain : .loss
        let until = try time()
        let isRevoked = try isFirst("revoked", or: "-")
        return KeptFact(at: at, holder: try holder(), isRevoked: isRevoked, kind: kind, until: until)
    }

    mutating func native() throws(PurchaseState.Unreadable) -> KeptNative {
        let at = try time()
        let kind: KeptNative.Kind = try isFirst("transferred", or: "received") ? .transferred : .received
        return KeptNative(at: at, kind: kind, from: try holder(), to: try holder())
    }

    mutating func register() throws(PurchaseState.Unreadable) -> Register {
        let at = try time()
        let isOn = try isFirst("on", or: "off")
        let isTenureFree = try isFirst("free", or: "tenure")
        return Register(holder: try holder(), at: at, isOn: isOn, isTenureFree: isTenureFree)
    }

    mutating func move() throws(PurchaseState.Unreadable) -> KeptMove {
        let at = try time()
        let isLogin = try isFirst("login", or: "all")
        let from = try peek() == "-" ? nil : holder()
        if from == nil { _ = try word() }
        return KeptMove(at: at, from: from, to: try holder(), isLogin: isLogin)
    }

    mutating func earlier() throws(PurchaseState.Unreadable) -> Register {
        let at = try time()
        let isOn = try isFirst("on", or: "off")
        return Register(holder: try holder(), at: at, isOn: isOn, isTenureFree: true)
    }

    mutating func named() throws(PurchaseState.Unreadable) -> (Timestamp, PurchaseState.Value) {
        let at = try time()
        guard let value = PurchaseState.Value(rawValue: try word()) else { throw unreadable("not the name of a value") }
        return (at, value)
    }

    mutating func own() throws(PurchaseState.Unreadable) -> OwnHolder {
        let since = try time()
        let isGiven = try isFirst("given", or: "-")
        return OwnHolder(holder: try holder(), since: since, isGiven: isGiven)
    }

    mutating func nameless() throws(PurchaseState.Unreadable) -> NamelessFact {
        let at = try time()
        let kind: KeptFact.Kind = try isFirst("gain", or: "loss") ? .gain : .loss
        let until = try peek() == "-" ? nil : time()
        if until == nil { _ = try word() }
        let isRevoked = try isFirst("revoked", or: "-")
        let isTenureFree = try isFirst("free", or: "tenure")
        return NamelessFact(
            at: at, holder: try holder(), kind: kind, isRevoked: isRevoked, isTenureFree: isTenureFree, until: until)
    }

    mutating func name() throws(PurchaseState.Unreadable) -> HolderName {
        let at = try time()
        let kind: HolderName.Kind
        switch try word() {
        case "gain": kind = .gain
        case "loss": kind = .loss
        case "naming": kind = .naming
        case "said": kind = .said
        case "given": kind = .given
        case "link": return HolderName(at: at, kind: .link, holder: try holder(), about: try holder())
        default: throw unreadable("not the kind of a name")
        }
        return HolderName(at: at, kind: kind, holder: try holder())
    }

    mutating func period() throws(PurchaseState.Unreadable) -> PurchaseState.RunningState {
        PurchaseState.RunningState(at: try time(), isOn: try isFirst("on", or: "off"))
    }

    /// The first of a line of plans, and the times of all.
    mutating func plan() throws(PurchaseState.Unreadable) -> (first: NamedPlan, times: [Timestamp]) {
        let kind: KeptFact.Kind = try isFirst("gain", or: "loss") ? .gain : .loss
        let digest = try int(as: UInt32.self)
        let times = try times()
        guard let first = times.first, zip(times, times.dropFirst()).allSatisfy({ $0 < $1 }) else {
            throw unreadable("out of order")
        }
        return (NamedPlan(holder: try holder(), kind: kind, digest: digest, at: first), times)
    }

    mutating func pair() throws(PurchaseState.Unreadable) -> AnnouncedPair {
        let number = try int()
        let (changes, transferred, received) = (try int(), try int(), try int())
        let voided = try times()
        if number < 0 || voided != voided.sorted() { throw unreadable("out of order") }
        return AnnouncedPair(
            from: try holder(), to: try holder(), lastOrdinal: number, voided: voided, settledChanges: changes,
            settledTransferred: transferred, settledReceived: received)
    }
}
