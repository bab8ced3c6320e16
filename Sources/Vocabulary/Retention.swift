/// How long attempts, events and the memory of duplicates stay in the database: `[retention]`.
package struct Retention: Sendable, Hashable {
    package let attempts: Duration
    package let events: Duration
    package let duplicates: Duration

    package init(attempts: Duration, events: Duration, duplicates: Duration) {
        self.attempts = attempts
        self.events = events
        self.duplicates = duplicates
    }
}
