import Foundation

/// What a scenario could not do, in words; it ends the test.
struct HarnessFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// The failure of a system call, by errno.
    init(call: String) { description = "\(call): \(String(cString: strerror(errno)))" }
}

/// A value behind a lock, whose changes can be waited for. What the harness shares between threads lies in one of
/// these.
final class Monitor<Value: Sendable>: @unchecked Sendable {
    // `value` is touched only while `condition` is locked.
    private let condition = NSCondition()
    private var value: Value

    init(_ value: Value) { self.value = value }

    var current: Value { read { $0 } }

    func read<Result>(_ body: (Value) throws -> Result) rethrows -> Result {
        condition.lock()
        defer { condition.unlock() }
        return try body(value)
    }

    @discardableResult
    func change<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        condition.lock()
        defer {
            condition.broadcast()
            condition.unlock()
        }
        return try body(&value)
    }

    /// Waits until `isReached` holds of the value, looking again after each change.
    /// - Returns: whether it came to that within `seconds`.
    func wait(_ seconds: Double, until isReached: (Value) -> Bool) -> Bool {
        let deadline = Date(timeIntervalSinceNow: seconds)
        condition.lock()
        defer { condition.unlock() }
        while !isReached(value) {
            if !condition.wait(until: deadline) { return isReached(value) }
        }
        return true
    }
}

/// Calls `isReached` until it holds, at intervals that grow: for what gives no signal (another program's database). The
/// seconds are for a machine that is busy with other tests: only what never comes waits so long.
func eventually(within seconds: Double = 180, _ isReached: () throws -> Bool) rethrows -> Bool {
    let deadline = Date(timeIntervalSinceNow: seconds)
    var pause = 0.02
    while true {
        if try isReached() { return true }
        if Date() > deadline { return false }
        Thread.sleep(forTimeInterval: pause)
        pause = min(pause * 1.5, 0.2)
    }
}

/// The answer to a request that is sent again while it is answered 503, for a minute, as vendors do: a busy machine may
/// not let the database answer in the time that a webhook has.
func insisting(_ ask: () throws -> HTTPMessage) rethrows -> HTTPMessage {
    var answer = try ask()
    _ = try eventually(within: 60) {
        if answer.status == 503 { answer = try ask() }
        return answer.status != 503
    }
    return answer
}

/// Runs `body` once for each number below `count`, each on a thread of its own, and waits for all of them.
func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let left = Monitor(count)
    for number in 0..<count {
        Thread.detachNewThread {
            body(number)
            left.change { $0 -= 1 }
        }
    }
    while !left.wait(3_600, until: { $0 == 0 }) {}
}
