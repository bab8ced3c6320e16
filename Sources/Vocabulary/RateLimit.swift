/// `rate = "100/s"`: maximum number of requests in any stretch of time as long as the period, over all daemons.
package struct RateLimit: Sendable, Hashable {
    package let count: Int
    package let period: Duration

    package init(count: Int, period: Duration) {
        self.count = count
        self.period = period
    }
}
