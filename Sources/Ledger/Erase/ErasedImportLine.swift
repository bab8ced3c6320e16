import Vocabulary

extension [ErasedID] {
    /// Returns a stored body without the person; nil if it does not name the person.
    ///
    /// A line of an import stays one that can be read: its `history` is in the order of its holders, each once, which
    /// the word for the person in other bodies would break. So the line names the stand-ins that the purchase's state
    /// has, and a repair finds in both the same holders.
    func redaction(ofStored body: [UInt8]) -> SealedText.Rewritten? {
        guard let plain = redaction(of: body) else { return nil }
        guard let line = ImportLine.stored(body) else { return plain }
        let renamed = line.renaming(self).canonical
        // A key or a user of a link may be the id, too.
        let rewritten = redaction(of: renamed) ?? SealedText.Rewritten(bytes: renamed, lostSignature: false)
        return ImportLine.stored(rewritten.bytes) == nil ? plain : rewritten
    }
}

extension ImportLine {
    /// Returns the same line with stand-ins for holders. A state that cannot be read stays as it is.
    fileprivate func renaming(_ ids: [ErasedID]) -> ImportLine {
        let standIns = Dictionary(firstOf: ids.map { ($0.holder, $0.standIn) })
        func name(_ holder: Holder) -> Holder { standIns[holder] ?? holder }
        var new = subject
        switch subject {
        case .purchase(var stated):
            stated.links = stated.links.map { name(.anonymous($0)).id }
            stated.transfers = stated.transfers.map {
                Passed(from: name($0.from), to: name($0.to), ordinal: $0.ordinal)
            }
            if let history = stated.history, let state = try? PurchaseState(bytes: history.state) {
                stated.history = StatedHistory(
                    state: state.renaming(ids).bytes,
                    holders: history.holders.map {
                        StatedHistory.Holding(holder: name($0.holder), isActive: $0.isActive, asOf: $0.asOf)
                    })
            }
            new = .purchase(stated)
        case .change(let kept):
            let changed: KeptChange.Subject =
                if case .holder(let from) = kept.subject { .holder(name(from)) } else { kept.subject }
            new = .change(
                KeptChange(
                    kind: kept.kind, subject: changed, target: name(kept.target),
                    secondTarget: kept.secondTarget.map(name)))
        case .link, .first, .install: break
        }
        return ImportLine(scope: scope, holder: name(holder), asOf: asOf, until: until, subject: new)
    }
}
