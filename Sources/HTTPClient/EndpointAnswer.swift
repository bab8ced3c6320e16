/// What a server answered.
package struct EndpointAnswer: Sendable, Equatable {
    /// 200 to 599.
    package let status: Int
    /// The value of Retry-After of an answer from 400 on, as it came.
    package let retryAfter: String?
    /// The first value of Cache-Control, as it came.
    package let cacheControl: String?
    /// The first `EndpointRequest.keptBytesMax` bytes of the body.
    package let body: [UInt8]
    /// Whether `body` is all of it. Only then may it be parsed.
    package let isWhole: Bool

    package init(
        status: Int, retryAfter: String? = nil, cacheControl: String? = nil, body: [UInt8] = [], isWhole: Bool = true
    ) {
        self.status = status
        self.retryAfter = retryAfter
        self.cacheControl = cacheControl
        self.body = body
        self.isWhole = isWhole
    }
}
