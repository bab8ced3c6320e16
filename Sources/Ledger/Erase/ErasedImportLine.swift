import Vocabulary

extension [ErasedID] {
    /// Returns a stored body without the person; nil if it does not name the person.
    ///
    /// A line of an import stays one that can be read: its `history` is in the order of its holders, each once, which
    /// the word for the person in other bodies would break. So the line names the stand-ins that the purchase's state
    /// has, and a repair finds in both the same holders.
    ///
    /// - Parameter holders: all of the person. An id that is the key of a purchase of others stays in the text
    ///   (`Erasure.eraseMentions`), and is no holder any more.
    func redaction(ofStored body: [UInt8], naming holders: [ErasedID]) -> SealedText.Rewritten? {
        let plain = redaction(of: body)
        guard let line = ImportLine.stored(body) else { return plain }
        let renamed = line.renaming(holders)
        if plain == nil, renamed == line { return nil }
        let bytes = renamed.canonical
        // A key or a user of a link may be the id, too.
        let rewritten = redaction(of: bytes) ?? SealedText.Rewritten(bytes: bytes, lostSignature: false)
        return ImportLine.stored(rewritten.bytes) == nil ? plain : rewritten
    }
}

extension ImportLine {
    /// Returns the same line with stand-ins for holders but its own: with that one, its event is the person's. A state
    /// that cannot be read stays as it is.
    fileprivate func renaming(_ ids: [ErasedID]) -> ImportLine {
        let standIns = Dictionary(firstOf: ids.map { ($0.holder, $0.standIn) })
        func name(_ holder: Holder) -> Holder { standIns[holder] ?? holder }
        var new = subject
        switch subject {
        case .purchase(var stated):
            stated.links = stated.links.map { name(.anonymous($0)).id }
            stated.transfers = stated.transfers.map {
                TransferCount(from: name($0.from), to: name($0.to), ordinal: $0.ordinal)
            }
            if let history = stated.history, let state = try? PurchaseState(bytes: history.state) {
                let isNamed = !state.holders.isDisjoint(with: standIns.keys)
                stated.history = StatedHistory(
                    state: isNamed ? state.renaming(ids).bytes : history.state,
                    holders: history.holders.map {
                        StatedHistory.Holding(holder: name($0.holder), isActive: $0.isActive, asOf: $0.asOf)
                    })
            }
            new = .purchase(stated)
        case .change(let kept):
            new = .change(
                KeptChange(
                    kind: kept.kind, subject: kept.subject, target: name(kept.target),
                    secondTarget: kept.secondTarget.map(name)))
        case .link, .first, .install: break
        }
        return ImportLine(scope: scope, holder: holder, asOf: asOf, until: until, subject: new)
    }
}
