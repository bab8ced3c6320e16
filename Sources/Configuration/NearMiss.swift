/// Finds what a mistyped word was meant to be.
package enum NearMiss {
    /// The candidate closest to `word`, letter case aside, if it is close enough: one edit in three letters. The first
    /// of equally close ones.
    package static func find(_ word: String, among candidates: [String]) -> String? {
        let lowered = word.lowercased()
        guard lowered.unicodeScalars.count <= ConfigurationLimits.quoteCharactersMax else { return nil }
        var best: (candidate: String, distance: Int)?
        for candidate in candidates {
            let allowed = max(1, min(word.count, candidate.count) / 3)
            // Each letter more is an edit.
            guard abs(word.count - candidate.count) <= allowed else { continue }
            let distance = distance(lowered, candidate.lowercased())
            if distance <= allowed, distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        return best?.candidate
    }

    /// `; did you mean …?`, or nothing.
    static func suffix(_ word: String, among candidates: [String]) -> String {
        find(word, among: candidates).map { "; did you mean `\($0)`?" } ?? ""
    }

    /// As `suffix`; where nothing is close enough, all of the candidates, which are few.
    static func hint(_ word: String, among candidates: [String]) -> String {
        let near = suffix(word, among: candidates)
        return near.isEmpty ? "; there are \(candidates.map { "`\($0)`" }.joined(separator: ", "))" : near
    }

    /// Insertions, deletions, substitutions and swaps of adjacent letters, each one edit (optimal string alignment).
    static func distance(_ left: String, _ right: String) -> Int {
        let a = Array(left.unicodeScalars)
        let b = Array(right.unicodeScalars)
        var before = [Int]()
        var previous = Array(0...b.count)
        for i in a.indices {
            var current = [i + 1]
            current.reserveCapacity(b.count + 1)
            for j in b.indices {
                var cost = min(previous[j + 1] + 1, current[j] + 1, previous[j] + (a[i] == b[j] ? 0 : 1))
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { cost = min(cost, before[j - 1] + 1) }
                current.append(cost)
            }
            before = previous
            previous = current
        }
        return previous[b.count]
    }
}
