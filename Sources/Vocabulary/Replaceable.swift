package import Synchronization

/// A value that is replaced while others read it. A reader gets all of the former value or all of the new one.
package final class Replaceable<Value: Sendable>: Sendable {
    @usableFromInline let value: Mutex<Value>

    @inlinable
    package init(_ value: Value) { self.value = Mutex(value) }

    @inlinable package var current: Value { value.withLock { $0 } }

    @inlinable
    package func replace(_ next: Value) { value.withLock { $0 = next } }

    /// Changes the value under the lock and returns what `body` does, which must be short.
    @inlinable
    package func change<Result: Sendable>(_ body: (inout Value) -> Result) -> Result { value.withLock { body(&$0) } }
}

extension Replaceable {
    /// Adds and replaces entries. One that is gone from the configuration stays, because its webhooks and messages may
    /// still be on their way.
    package func merge<Entry>(_ new: [String: Entry]) where Value == [String: Entry] {
        change { $0.merge(new) { _, new in new } }
    }
}
