import Synchronization

/// The sources that are known to have changes of holders: only their webhooks look changes up.
///
/// A source is added and never removed. Each batch checks the others after it has locked its sources, so a change that
/// another daemon states is either seen by that check, or its daemon waits for the batch and sees its purchases.
final class ChangingSources: Sendable {
    private let sources = Mutex<Set<String>>([])

    var known: Set<String> { sources.withLock { $0 } }

    func add(_ new: some Sequence<String>) { sources.withLock { $0.formUnion(new) } }
}
