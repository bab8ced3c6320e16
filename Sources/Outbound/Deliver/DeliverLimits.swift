/// Limits of the HTTP client alone, beside those of `Limits` that the configuration or another part knows too.
package enum DeliverLimits {
    /// Addresses of one name that are tried; further ones are left out.
    package static let candidatesMax = 8
    /// Requests of one endpoint and one event loop that wait for a free connection; more are refused.
    package static let requestsWaitingMax = 4_096
    /// Bodies up to this many bytes are copied behind their head: cheaper than a second buffer down the pipeline.
    package static let coalescedBodyBytesMax = 16 << 10
    /// Header fields of one answer.
    package static let responseFieldsMax = 128
    /// How long a closing TLS connection waits for the other side's goodbye, in milliseconds.
    package static let tlsGoodbyeMilliseconds: Int64 = 500
    /// Threads that look names up. A look-up can hang for as long as the resolver likes, so these are its own.
    package static let resolverThreads = 8
    /// The last address of a name is given this much more than the deadline leaves, so that the deadline speaks first.
    package static let connectMarginMilliseconds: Int64 = 1_000
}
