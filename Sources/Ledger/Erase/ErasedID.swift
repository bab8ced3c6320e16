import Vocabulary

/// One id of a person as it may stand in what was stored: in a column of its own, in JSON, in a purchase's state.
///
/// In JSON it counts only as a whole string, so that `jeff` is not found in `jeffrey`; digits also as a whole number.
struct ErasedID: Sendable {
    let holder: Holder
    /// What stands in its place where others' data would be torn by leaving it out: the same everywhere, and nobody's.
    let standIn: Holder

    /// In the body of another's webhook.
    static let replacement = "erased"

    /// The id as a JSON string, in the spellings that vendors' libraries write; also as a string of JSON within a
    /// string, where each quote is escaped.
    var spellings: [(found: [UInt8], replacement: [UInt8])] {
        let id = holder.id
        var texts: Set<[UInt8]> = []
        for isASCII in [false, true] {
            for escapesSlash in [false, true] {
                for isUpper in [false, true] {
                    texts.insert(Self.escaped(id, isASCII: isASCII, escapesSlash: escapesSlash, isUpper: isUpper))
                }
            }
        }
        func quoted(_ text: [UInt8], _ quote: String) -> [UInt8] { Array(quote.utf8) + text + Array(quote.utf8) }
        let replacement = Array(Self.replacement.utf8)
        return texts.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { text in
            [#"""#, #"\""#].map { (quoted(text, $0), quoted(replacement, $0)) }
        }
    }

    /// Digits alone, as vendors that number their users write it without quotation marks.
    var isNumber: Bool { !holder.id.isEmpty && holder.id.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 } }

    /// What a page of rows is searched for: more than `numbers` then takes.
    var numberNeedles: [[UInt8]] { isNumber ? [":", ": "].map { Array(($0 + holder.id).utf8) } : [] }

    /// Where it stands as a JSON number, be it in JSON within a string, as the value of a member whose name ends in
    /// "id": the same number elsewhere is an amount or a time.
    func numbers(in text: [UInt8]) -> [Range<Int>] {
        guard isNumber else { return [] }
        return text.ranges(of: Array(holder.id.utf8)).filter { range in
            if range.upperBound < text.count, Self.isOfNumber(text[range.upperBound]) { return false }
            var before = text[..<range.lowerBound]
            func skip(_ isSkipped: (UInt8) -> Bool) {
                while let last = before.last, isSkipped(last) { before.removeLast() }
            }
            func take(_ character: Character) -> Bool {
                guard let last = before.last, Character(Unicode.Scalar(last)).lowercased() == String(character) else {
                    return false
                }
                before.removeLast()
                return true
            }
            skip(Self.isSpace)
            guard take(":") else { return false }
            skip(Self.isSpace)
            guard take("\"") else { return false }
            skip { $0 == UInt8(ascii: "\\") }
            return take("d") && take("i")
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }

    private static func isOfNumber(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || ".eE".utf8.contains(byte)
    }

    /// How a line of `PurchaseState.bytes` names it, but for what ends the field: a prefix of it, at least.
    var stateNeedle: [UInt8] {
        var writer = LineWriter()
        writer.field(holder)
        return writer.bytes
    }

    private static func escaped(_ text: String, isASCII: Bool, escapesSlash: Bool, isUpper: Bool) -> [UInt8] {
        var out: [UInt8] = []
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": out += [UInt8(ascii: "\\"), UInt8(scalar.value)]
            case "/" where escapesSlash: out += [UInt8(ascii: "\\"), UInt8(ascii: "/")]
            case "\n": out += Array(#"\n"#.utf8)
            case "\r": out += Array(#"\r"#.utf8)
            case "\t": out += Array(#"\t"#.utf8)
            case _ where scalar.value < 0x20 || (isASCII && !scalar.isASCII):
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
    /// What to look for in stored JSON.
    var needles: [[UInt8]] { flatMap { $0.spellings.map(\.found) + $0.numberNeedles } }

    /// `bytes` with every id replaced; nil: there was none.
    func redacted(_ bytes: [UInt8]) -> [UInt8]? {
        var out = bytes
        for (found, replacement) in flatMap(\.spellings) { out = out.replacing(found, with: replacement) }
        // A number that is nobody's stays a number.
        for id in self {
            for range in id.numbers(in: out).reversed() { out.replaceSubrange(range, with: [UInt8(ascii: "0")]) }
        }
        return out == bytes ? nil : out
    }

    /// Whether one stands in text of any kind, not as a part of a longer word.
    func stand(in text: [UInt8]) -> Bool {
        contains { id in
            let id = Array<UInt8>(id.holder.id.utf8)
            return text.ranges(of: id).contains { range in
                !(range.lowerBound > 0 && Self.isOfWord(text[range.lowerBound - 1]))
                    && !(range.upperBound < text.count && Self.isOfWord(text[range.upperBound]))
            }
        }
    }

    /// The same as a regular expression of PostgreSQL's.
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
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "_"), 0x80...:
            true
        default: false
        }
    }
}

extension PurchaseState {
    /// Everybody it names.
    var holders: Set<Holder> {
        Set(
            facts.map(\.holder) + natives.flatMap { [$0.from, $0.to] } + registers.map(\.holder)
                + told.flatMap { [$0.from, $0.to] })
    }

    /// The same knowledge of somebody without a name, in its canonical order: who held it in between decides who holds
    /// it now, and what was told is told no second time.
    func renaming(_ ids: [ErasedID]) -> PurchaseState {
        let standIns = Dictionary(ids.map { ($0.holder, $0.standIn) }, uniquingKeysWith: { first, _ in first })
        func name(_ holder: Holder) -> Holder { standIns[holder] ?? holder }
        var state = self
        state.facts = facts.map {
            KeptFact(at: $0.at, holder: name($0.holder), isRevoked: $0.isRevoked, kind: $0.kind, until: $0.until)
        }.sorted()
        state.natives = natives.map { KeptNative(at: $0.at, kind: $0.kind, from: name($0.from), to: name($0.to)) }
            .sorted()
        state.registers = registers.map {
            Register(holder: name($0.holder), at: $0.at, isOn: $0.isOn, isTenureFree: $0.isTenureFree)
        }.sorted { $0.holder < $1.holder }
        state.told = told.map {
            ToldPair(
                from: name($0.from), to: name($0.to), number: $0.number, voided: $0.voided,
                settledChanges: $0.settledChanges, settledTransferred: $0.settledTransferred,
                settledReceived: $0.settledReceived)
        }.sorted { ($0.from, $0.to) < ($1.from, $1.to) }
        return state
    }
}
