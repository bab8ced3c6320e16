import Vocabulary

/// Texts in which vendors seal what they send: Base64 in either alphabet (RFC 4648 sections 4 and 5), and compact JSON
/// Web Signatures (RFC 7515 section 7.1), also one in another. What they say is found only where they are opened.
///
/// Independent of the kind of source: whoever is erased is erased from the webhooks of a source that the configuration
/// does not have any more, too.
enum SealedText {
    /// How many texts may lie in one another: Apple signs a transaction, and the payload that holds it.
    static let layersMax = 2
    /// Digits of a text that can hold anything: of three bytes, an id of one letter between quotation marks.
    private static let digitsMin = 4
    /// `{"alg":"none"}`, the header of a JWS that nobody has signed (RFC 7515 appendix A.5), in base64url.
    static let unsignedHeader = Array("eyJhbGciOiJub25lIn0".utf8)

    struct Rewritten {
        var bytes: [UInt8]
        /// Whether a signature was dropped. It does not hold any more, and of a guessed id it shows whether it was the
        /// one.
        var lostSignature: Bool
    }

    /// Returns `bytes` with every sealed text rewritten that `change` rewrites; nil if there is none. A JWS becomes an
    /// unsigned one, without its certificates.
    ///
    /// - Parameter change: returns nil for a text that stays.
    static func rewriting(
        _ bytes: [UInt8], layers: Int = layersMax, _ change: ([UInt8]) -> [UInt8]?
    ) -> Rewritten? {
        guard layers > 0 else { return nil }
        var (out, copied) = (Rewritten(bytes: [], lostSignature: false), 0)
        for run in runs(in: bytes) {
            let parts = parts(of: bytes[run])
            var isChanged = false
            var written = parts.map { part in
                guard let text = decoded(part) else { return Array(part) }
                let changed = change(text)
                let inner = rewriting(changed ?? text, layers: layers - 1, change)
                guard let new = inner?.bytes ?? changed else { return Array(part) }
                isChanged = true
                if inner?.lostSignature == true { out.lostSignature = true }
                let isURL = parts.count > 1 || isOfURL(part)
                return encoded(new, isURL: isURL, isPadded: !isURL && part.count.isMultiple(of: 4))
            }
            guard isChanged else { continue }
            if written.count == 3 {
                (written[0], written[2]) = (unsignedHeader, [])
                out.lostSignature = true
            }
            out.bytes += bytes[copied..<run.lowerBound] + written.joined(separator: [dot])
            copied = run.upperBound
        }
        if copied == 0 { return nil }
        out.bytes += bytes[copied...]
        return out
    }

    /// Everything that sealed texts in `bytes` say.
    static func opened(in bytes: [UInt8], layers: Int = layersMax) -> [[UInt8]] {
        guard layers > 0 else { return [] }
        return runs(in: bytes).flatMap { parts(of: bytes[$0]).compactMap(decoded) }
            .flatMap { [$0] + opened(in: $0, layers: layers - 1) }
    }

    /// What occurs in bytes in which a sealed text says `text`, wherever it begins: the digits that do not depend on
    /// what is beside it. Whatever is short occurs elsewhere, too.
    static func needles(of text: [UInt8]) -> Set<[UInt8]> {
        var (found, layer): (Set<[UInt8]>, Set<[UInt8]>) = ([], [text])
        for _ in 0..<layersMax {
            layer = Set(
                layer.flatMap { text in
                    [false, true].flatMap { isURL in (0..<3).map { needle(of: text, after: $0, isURL: isURL) } }
                })
            found.formUnion(layer)
        }
        return found
    }

    /// The digits that stand for `text` alone, behind so many other bytes of a group of three.
    private static func needle(of text: [UInt8], after before: Int, isURL: Bool) -> [UInt8] {
        let digits = encoded([UInt8](repeating: 0, count: before) + text, isURL: isURL, isPadded: false)
        let (first, end) = ((before * 8 + 5) / 6, (before + text.count) * 8 / 6)
        return first < end ? Array(digits[first..<end]) : []
    }

    // MARK: Base64

    private static let dot = UInt8(ascii: ".")
    private static let pad = UInt8(ascii: "=")
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let digitsOfURL = Array(digits.dropLast(2)) + Array("-_".utf8)
    /// The value of each digit of both alphabets; nil for other bytes.
    private static let values: [UInt32?] = {
        var values = [UInt32?](repeating: nil, count: 256)
        for alphabet in [digits, digitsOfURL] {
            for (value, digit) in alphabet.enumerated() { values[Int(digit)] = UInt32(value) }
        }
        return values
    }()

    /// Where sealed texts can be: bytes of the alphabets with dots between.
    private static func runs(in bytes: [UInt8]) -> [Range<Int>] {
        var (runs, start): ([Range<Int>], Int) = ([], 0)
        func end(_ index: Int) { if index - start >= digitsMin { runs.append(start..<index) } }
        for (index, byte) in bytes.enumerated() where values[Int(byte)] == nil && byte != dot && byte != pad {
            end(index)
            start = index + 1
        }
        end(bytes.count)
        return runs
    }

    private static func parts(of run: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        run.split(separator: dot, omittingEmptySubsequences: false)
    }

    private static func isOfURL(_ part: ArraySlice<UInt8>) -> Bool {
        part.contains { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
    }

    /// Reads more than vendors write: digits of either alphabet, padded or not.
    private static func decoded(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        let end = part.lastIndex { $0 != pad }.map { $0 + 1 } ?? part.startIndex
        let part = part[..<end]
        guard part.count >= digitsMin, part.count % 4 != 1 else { return nil }
        var out: [UInt8] = []
        out.reserveCapacity(part.count / 4 * 3 + 2)
        var (group, bits): (UInt32, UInt32) = (0, 0)
        for digit in part {
            guard let value = values[Int(digit)] else { return nil }
            group = group << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                out.append(UInt8(truncatingIfNeeded: group >> bits))
                group &= 1 << bits - 1
            }
        }
        return out
    }

    private static func encoded(_ bytes: [UInt8], isURL: Bool, isPadded: Bool) -> [UInt8] {
        let digits = isURL ? digitsOfURL : digits
        var out: [UInt8] = []
        out.reserveCapacity((bytes.count + 2) / 3 * 4)
        var (group, bits): (UInt32, UInt32) = (0, 0)
        for byte in bytes {
            group = group << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                out.append(digits[Int(group >> bits & 63)])
            }
            group &= 1 << bits - 1
        }
        if bits > 0 { out.append(digits[Int(group << (6 - bits) & 63)]) }
        while isPadded, !out.count.isMultiple(of: 4) { out.append(pad) }
        return out
    }
}
