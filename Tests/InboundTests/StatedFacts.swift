import Vocabulary

extension Event {
    /// Its facts, without whom the store said beside them.
    var stated: [Fact] { facts.filter { $0.kind != .said } }
}
