extension Dictionary {
    /// Of several values of one key the first counts.
    @inlinable
    package init(firstOf pairs: some Sequence<(Key, Value)>) {
        self.init(pairs, uniquingKeysWith: { first, _ in first })
    }

    /// By a key of each value; of several with one key the first counts.
    @inlinable
    package init(firstOf values: some Sequence<Value>, by key: (Value) -> Key) {
        self.init(values.map { (key($0), $0) }, uniquingKeysWith: { first, _ in first })
    }
}
