import JSONText
import Vocabulary

/// One id of a person as it may occur in stored data: in a column of its own, in JSON, in a purchase's state.
///
/// In JSON only a whole string counts, so that `jeff` is not found in `jeffrey`; digits also as a whole number, and not
/// where the member is no person's (`MemberName.namesNoPerson`).
struct ErasedID: Sendable {
    let holder: Holder
    /// Replaces the id where omitting it would damage others' data. It is the same everywhere and belongs to nobody.
    let standIn: Holder

    /// Replaces the id in the body of another's webhook.
    static let replacement = "erased"

    static func standIn(_ hash: String) -> Holder { .anonymous(standInPrefix + hash.prefix(16)) }

    static let standInPrefix = "\(replacement)-"

    static func isStandIn(_ holder: Holder) -> Bool {
        guard holder.isAnonymous, holder.id.utf8.starts(with: standInPrefix.utf8) else { return false }
        let hash = holder.id.utf8.dropFirst(standInPrefix.utf8.count)
        return hash.count == 16 && hash.allSatisfy("0123456789abcdef".utf8.contains)
    }

    /// The holder in each spelling that is the same id: some write a UUID in capital letters (RFC 9562 section 4), and
    /// the ledger keeps those of Apple in small ones.
    static func spellings(of holder: Holder) -> [Holder] {
        let id = Array(holder.id.utf8)
        let isUUID =
            id.count == 36
            && id.enumerated().allSatisfy { index, byte in
                [8, 13, 18, 23].contains(index)
                    ? byte == UInt8(ascii: "-") : Identifier.value(ofHexDigit: byte) != nil
            }
        if !isUUID { return [holder] }
        var holders = [holder]
        for id in [holder.id.lowercased(), holder.id.uppercased()] {
            let other = holder.isAnonymous ? Holder.anonymous(id) : .user(id)
            if !holders.contains(other) { holders.append(other) }
        }
        return holders
    }

    /// The id inside a JSON string, in the spellings that platforms' libraries write.
    private var texts: Set<[UInt8]> {
        var texts: Set<[UInt8]> = []
        for isASCII in [false, true] {
            for escapesSlash in [false, true] {
                for isUpper in [false, true] {
                    for others in Self.escapedByEncoders {
                        texts.insert(
                            Self.escaped(
                                holder.id, isASCII: isASCII, escapesSlash: escapesSlash, isUpper: isUpper,
                                others: others))
                    }
                }
            }
        }
        return texts
    }

    /// The id as a JSON string; also inside JSON within a string, where each quote is escaped.
    var spellings: [(found: [UInt8], replacement: [UInt8])] {
        let id = holder.id
        func quoted(_ text: [UInt8], _ quote: String) -> [UInt8] { Array(quote.utf8) + text + Array(quote.utf8) }
        let replacement = Array(Self.replacement.utf8)
        let inKey = Self.escaped(keyPart.replacement, isASCII: true, escapesSlash: false, isUpper: false)
        return texts.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { text in
            [#"""#, #"\""#].map { (quoted(text, $0), quoted(replacement, $0)) }
                + [(Array(":\(id.utf8.count):".utf8) + text + Array(":".utf8), inKey)]
        }
    }

    /// An id of so many bytes hardly occurs by chance.
    private static let longMin = 8

    /// What a page of rows is searched for where the id may stand in a sealed text: a short one with what is around it.
    var sealedNeedles: Set<[UInt8]> {
        let isLong = holder.id.utf8.count >= Self.longMin
        let wanted = isLong ? Array(texts) : spellings.map(\.found) + numberNeedles
        return wanted.reduce(into: []) { $0.formUnion(SealedText.needles(of: $1)) }
    }

    /// What PostgreSQL's samples of values are searched for: `pg_stats` shows text as an array's element, with each
    /// quotation mark and backslash escaped, and bytes as hexadecimal digits. It has no values beyond 1 kB, so hardly
    /// any that are sealed.
    var sampleNeedles: [String] {
        texts.union([Array(holder.id.utf8)]).flatMap { text in
            let hex = text.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            let shown = text.flatMap { Self.isEscapedInArray($0) ? [UInt8(ascii: "\\"), $0] : [$0] }
            return [hex, String(decoding: shown, as: UTF8.self)]
        }
    }

    private static func isEscapedInArray(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "\"")
    }

    /// The same for the id alone, as `occur(in:)` finds it.
    var sealedWords: Set<[UInt8]> { SealedText.needles(of: Array(holder.id.utf8)) }

    /// The id inside a purchase's key, where it follows its length: grants of the app's backend have a key for each
    /// install.
    var keyPart: (found: String, replacement: String) {
        func part(_ id: String) -> String { ":\(id.utf8.count):\(id):" }
        return (part(holder.id), part(standIn.id))
    }

    /// Whether the id is digits only: platforms that number their users write it without quotation marks.
    var isNumber: Bool { !holder.id.isEmpty && holder.id.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 } }

    /// What a page of rows is searched for; `numbers` then keeps only some of the hits.
    var numberNeedles: [[UInt8]] { isNumber ? [":", ": "].map { Array(($0 + holder.id).utf8) } : [] }

    /// Where the id occurs as a JSON number, also in JSON within a string, as the value of a member whose name ends in
    /// "id" and may be a person's. Elsewhere the same number is an amount or a time.
    func numbers(in text: [UInt8]) -> [Range<Int>] {
        guard isNumber else { return [] }
        return text.ranges(of: Array(holder.id.utf8)).filter { range in
            if range.upperBound < text.count, Self.isOfNumber(text[range.upperBound]) { return false }
            guard let name = MemberName(before: range.lowerBound, in: text) else { return false }
            return name.endsInID && !name.namesNoPerson
        }
    }

    /// Where the id occurs in one of its `spellings`. Vendors write amounts and versions as strings of digits, too.
    func ranges(of spelling: [UInt8], in text: [UInt8]) -> [Range<Int>] {
        let ranges = text.ranges(of: spelling)
        guard isNumber else { return ranges }
        return ranges.filter { MemberName(before: $0.lowerBound, in: text)?.namesNoPerson != true }
    }

    private static func isOfNumber(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || ".eE".utf8.contains(byte)
    }

    /// How a line of `PurchaseState.bytes` names the holder, or a prefix of that: without the end of the field.
    var stateNeedle: [UInt8] {
        var writer = PurchaseStateLineWriter()
        writer.field(holder)
        return writer.bytes
    }

    /// What else encoders write as \u and digits: none; Go's and Rails'; Gson's.
    private static let escapedByEncoders: [Set<Unicode.Scalar>] = [[], ["<", ">", "&"], ["<", ">", "&", "=", "'"]]

    private static func escaped(
        _ text: String, isASCII: Bool, escapesSlash: Bool, isUpper: Bool, others: Set<Unicode.Scalar> = []
    ) -> [UInt8] {
        var out: [UInt8] = []
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": out += [UInt8(ascii: "\\"), UInt8(scalar.value)]
            case "/" where escapesSlash: out += [UInt8(ascii: "\\"), UInt8(ascii: "/")]
            case "\n": out += Array(#"\n"#.utf8)
            case "\r": out += Array(#"\r"#.utf8)
            case "\t": out += Array(#"\t"#.utf8)
            case _ where scalar.value < 0x20 || (isASCII && !scalar.isASCII) || others.contains(scalar):
                for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
                    let hex = String(unit, radix: 16, uppercase: isUpper)
                    out += Array((#"\u"# + String(repeating: "0", count: 4 - hex.utf8.count) + hex).utf8)
                }
            default: out += UTF8.encode(scalar).map(Array.init) ?? []
            }
        }
        return out
    }
}

extension [ErasedID] {
    /// What to search stored JSON for.
    var needles: [[UInt8]] { flatMap { $0.spellings.map(\.found) + $0.numberNeedles } }

    /// What to search it for where it may be sealed.
    var sealedNeedles: [[UInt8]] { Array<[UInt8]>(reduce(into: Set<[UInt8]>()) { $0.formUnion($1.sealedNeedles) }) }

    /// Returns `bytes` with every id replaced, also in sealed texts; nil if there was none.
    func redacted(_ bytes: [UInt8]) -> [UInt8]? { redaction(of: bytes)?.bytes }

    /// Returns `bytes` with every id replaced, and whether a signature in them was dropped for it.
    func redaction(of bytes: [UInt8]) -> SealedText.Rewritten? {
        let clear = redactedInClear(bytes)
        return SealedText.rewriting(clear ?? bytes, redactedInClear)
            ?? clear.map { SealedText.Rewritten(bytes: $0, lostSignature: false) }
    }

    /// Money of our own messages is spared: an amount may have the digits of an id.
    private func redactedInClear(_ bytes: [UInt8]) -> [UInt8]? {
        var (out, done, isChanged): ([UInt8], Int, Bool) = ([], 0, false)
        for money in Self.money(in: bytes) {
            let before = Array<UInt8>(bytes[done..<money.lowerBound])
            let redacted = redactedWithoutMoney(before)
            isChanged = isChanged || redacted != nil
            out += (redacted ?? before) + bytes[money]
            done = money.upperBound
        }
        if done == 0 { return redactedWithoutMoney(bytes) }
        let rest = Array<UInt8>(bytes[done...])
        let redacted = redactedWithoutMoney(rest)
        return isChanged || redacted != nil ? out + (redacted ?? rest) : nil
    }

    private static let moneyKey = Array<UInt8>(#""money":{"#.utf8)
    /// The members of `data.money`, as they are written (posthouse-messages(7), "Money").
    private static let moneyMembers = [
        "amount", "currency", "amount_usd", "amount_eur", "proceeds_usd", "tax", "commission", "is_refund",
    ]

    /// Where `data.money` is. A platform's own body may have a member of that name, too, and a person in it.
    private static func money(in bytes: [UInt8]) -> [Range<Int>] {
        bytes.ranges(of: moneyKey).compactMap { key in
            guard let end = bytes[key.upperBound...].firstIndex(of: UInt8(ascii: "}")) else { return nil }
            let members = bytes[key.upperBound..<end].split(
                separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
            let isOurs =
                members.count == moneyMembers.count
                && zip(members, moneyMembers).allSatisfy { $0.starts(with: "\"\($1)\":".utf8) }
            return isOurs ? key.lowerBound..<end : nil
        }
    }

    private func redactedWithoutMoney(_ bytes: [UInt8]) -> [UInt8]? {
        var out = bytes
        for id in self {
            for (found, replacement) in id.spellings {
                for range in id.ranges(of: found, in: out).reversed() { out.replaceSubrange(range, with: replacement) }
            }
        }
        // A number is replaced by a number, so that the member keeps its type.
        for id in self {
            for range in id.numbers(in: out).reversed() { out.replaceSubrange(range, with: [UInt8(ascii: "0")]) }
        }
        return out == bytes ? nil : out
    }

    /// Whether an id occurs in bytes that no adapter could read, or in what they seal. In JSON it counts as in others'
    /// webhooks; only in what is none is every word taken for an id. What is sealed counts if it is text: a signature
    /// or a certificate has a byte that looks like a digit by chance.
    func occur(inUnreadable bytes: [UInt8]) -> Bool {
        if redaction(of: bytes) != nil { return true }
        let opened = SealedText.opened(in: bytes).filter { String(validating: $0, as: UTF8.self) != nil }
        return ([bytes] + opened).contains { text in
            (try? JSONScan.topObject(text, depthMax: Limits.jsonDepthMax)) == nil && occur(in: text)
        }
    }

    /// Returns a purchase's key with every id in it replaced.
    func renaming(key: String) -> String {
        var bytes = Array<UInt8>(key.utf8)
        for id in self {
            let (found, replacement) = id.keyPart
            bytes = bytes.replacing(Array<UInt8>(found.utf8), with: Array<UInt8>(replacement.utf8))
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Whether an id occurs in text of any kind, other than as part of a longer word.
    func occur(in text: [UInt8]) -> Bool {
        contains { id in
            let id = Array<UInt8>(id.holder.id.utf8)
            return text.ranges(of: id).contains { range in
                !(range.lowerBound > 0 && Self.isOfWord(text[range.lowerBound - 1]))
                    && !(range.upperBound < text.count && Self.isOfWord(text[range.upperBound]))
            }
        }
    }

    /// Whether an id is a field of lines of a purchase's state, written as `PurchaseStateLineWriter` does.
    func occur(inLines lines: [UInt8]) -> Bool {
        contains { id in
            lines.ranges(of: id.stateNeedle).contains { range in
                range.upperBound == lines.endIndex
                    || [UInt8(ascii: "\t"), UInt8(ascii: "\n")].contains(lines[range.upperBound])
            }
        }
    }

    /// `occur(in:)` as a regular expression of PostgreSQL.
    var expression: String {
        let ids = map { id in
            id.holder.id.unicodeScalars.map { scalar in
                let isPlain = scalar.properties.isAlphabetic || ("0"..."9").contains(scalar)
                return isPlain || !scalar.isASCII ? String(scalar) : "\\" + String(scalar)
            }.joined()
        }
        return "(^|[^[:alnum:]_])(" + ids.joined(separator: "|") + ")($|[^[:alnum:]_])"
    }

    private static func isOfWord(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || byte == UInt8(ascii: "_") || byte >= 0x80
    }
}

extension PurchaseState {
    /// Everybody named in the state.
    var holders: Set<Holder> {
        var holders = Set(facts.map(\.holder))
        for pair in natives { holders.formUnion([pair.from, pair.to]) }
        holders.formUnion(registers.map(\.holder))
        for pair in announced { holders.formUnion([pair.from, pair.to]) }
        for move in moves { holders.formUnion([move.from, move.to].compactMap(\.self)) }
        holders.formUnion(earlier.map(\.holder))
        holders.formUnion(own.map(\.holder))
        holders.formUnion(nameless.map(\.holder))
        for name in names { holders.formUnion([name.holder, name.about].compactMap(\.self)) }
        holders.formUnion(plans.map(\.holder))
        return holders
    }

    /// Returns the same state with holders whom nobody knows: who held the purchase in between still decides who holds
    /// it now, and announced transfers are not announced again. Whoever is erased again gets the same name as before.
    /// States that become one are merged by the rules of recording.
    ///
    /// The number of a renamed pair does not raise `forgottenOrdinal`. So if an erased id comes back, its pair begins
    /// at 1 again, with ids of transfers that were used. If it began above the number, a late webhook of an erased
    /// transfer would announce that transfer a second time; with the same id it is a repetition.
    func renaming(_ ids: [ErasedID]) -> PurchaseState {
        let standIns = Dictionary(firstOf: ids.map { ($0.holder, $0.standIn) })
        func name(_ holder: Holder) -> Holder { standIns[holder] ?? holder }
        var state = PurchaseState()
        state.period = period
        state.forgottenOrdinal = forgottenOrdinal
        state.valueTimes = valueTimes
        state.unknownLines = unknownLines
        state.mayLackName = mayLackName
        for own in own {
            state.insert(OwnHolder(holder: name(own.holder), since: own.since, isGiven: own.isGiven))
        }
        for fact in nameless { state.insert(fact.renamed(name(fact.holder))) }
        for known in decidedNames {
            let about = known.about.map(name)
            state.insert(HolderName(at: known.at, kind: known.kind, holder: name(known.holder), about: about))
        }
        for fact in facts {
            state.insert(
                KeptFact(
                    at: fact.at, holder: name(fact.holder), isRevoked: fact.isRevoked, kind: fact.kind,
                    until: fact.until))
        }
        for plan in plans { state.insert(plan.renamed(name(plan.holder))) }
        if period != nil { state.keepFirstGains() }
        for native in natives where name(native.from) != name(native.to) {
            state.insert(KeptNative(at: native.at, kind: native.kind, from: name(native.from), to: name(native.to)))
        }
        for register in registers {
            state.write(
                Register(
                    holder: name(register.holder), at: register.at, isOn: register.isOn,
                    isTenureFree: register.isTenureFree))
        }
        for move in moves where move.from.map(name) != name(move.to) {
            state.insert(KeptMove(at: move.at, from: move.from.map(name), to: name(move.to), isLogin: move.isLogin))
        }
        for register in earlier {
            state.keepEarlier(
                Register(
                    holder: name(register.holder), at: register.at, isOn: register.isOn,
                    isTenureFree: register.isTenureFree))
        }
        for pair in announced where name(pair.from) != name(pair.to) {
            state.merge(
                AnnouncedPair(
                    from: name(pair.from), to: name(pair.to), lastOrdinal: pair.lastOrdinal, voided: pair.voided,
                    settledChanges: pair.settledChanges, settledTransferred: pair.settledTransferred,
                    settledReceived: pair.settledReceived))
        }
        state.settleNumbers()
        return state
    }

    /// Keeps one fact for each holder, as shared ownership has it.
    private mutating func keepFirstGains() {
        var holders: Set<Holder> = []
        facts = facts.filter { holders.insert($0.holder).inserted }
    }
}
