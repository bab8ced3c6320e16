internal import Vocabulary

/// Limits of what is asked of a store's servers while a webhook waits for its answer.
enum StoreRequestLimits {
    /// From the first byte of a webhook to the last answer about it: 6 seconds.
    static let askingTimeout = Limits.acknowledgementTimeout - Limits.acknowledgementMargin - recordingTime
    /// What is left of the acknowledgement's time for recording.
    static let recordingTime: Duration = .milliseconds(1_500)
    /// One request to the API.
    static let requestTimeout: Duration = .seconds(5)
    /// A request that fails with less time than this says nothing of the API. Nor does one that times out and had less
    /// than this after its wait for a connection here.
    static let fairTime: Duration = .seconds(2)
    /// Webhooks of one source that are being asked about at once; further ones are spooled or answered 503. Over the 16
    /// connections that a source has to an origin (`OutgoingClients`) they are four rounds: each has its answer within
    /// `requestTimeout` while the API needs at most 1.25 s for one.
    static let eventsMax = 64

    /// The request for an access token, and for a key set: no webhook need wait for its end.
    static let tokenTimeout: Duration = .seconds(5)
    static let keysTimeout: Duration = .seconds(10)
    /// Bytes of the answer with an access token; Google's have some 1,000.
    static let tokenAnswerBytesMax = 32 << 10

    /// How often a file of keys is looked at.
    static let keyFileInterval: Duration = .seconds(5)

    /// Requests in a row that must fail before the API is taken to be out of reach.
    static let failuresMax = 5
    /// How long nothing is asked then: doubles from the first bound to the second with each probe that fails.
    static let pause: ClosedRange<Duration> = .seconds(2)...(.seconds(30))
}
