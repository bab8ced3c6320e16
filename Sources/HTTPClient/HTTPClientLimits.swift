package import NIOCore

/// Limits of the HTTP client alone; those that the configuration or another target uses, too, are in `Limits`.
package enum HTTPClientLimits {
    /// Addresses of one name that are tried; further ones are left out.
    package static let candidatesMax = 8
    /// No connection is opened while fewer descriptors are left: the database and the runtime need some, too.
    package static let descriptorsReserved = 16
    /// Requests of one client that wait for a free connection; more are refused.
    package static let requestsWaitingMax = 4_096
    /// Bodies up to this many bytes are copied after their head: cheaper than a second buffer down the pipeline.
    package static let coalescedBodyBytesMax = 16 << 10
    /// Header fields of one answer.
    package static let responseFieldsMax = 128
    /// How long a closing TLS connection waits for the other side's close_notify, in milliseconds.
    package static let tlsGoodbyeMilliseconds: Int64 = 500
    /// How long the look-up of a name may take before the addresses of an earlier one are used in its place.
    package static let lookUpTimeout: Duration = .seconds(1)
    /// How old those addresses may be.
    package static let addressMemory: Duration = .seconds(300)
    /// How late a deadline must be noticed for what has arrived to be read first, and the time for that.
    package static let lateness = TimeAmount.milliseconds(100)
    package static let timeToReadLate = TimeAmount.milliseconds(50)
    /// The longest that an address has to answer while there are others: every new connection waits as long where the
    /// first address of a name is silent (an IPv6 route that leads nowhere, for example). Long enough for a SYN that is
    /// sent again after a second; RFC 8305 §5 begins the next attempt after 250 ms already, beside the first.
    package static let connectShareMax = TimeAmount.seconds(2)
    /// Added to the connect time-out of a name's last address, so that the deadline ends the request first.
    package static let connectMarginMilliseconds: Int64 = 1_000
}
