import NIOCore
import Vocabulary

/// What one listener allows its clients. Tests pass shorter waits; everything else takes the defaults.
package struct HTTPServerLimits: Sendable {
    /// Bytes of a head: names, values and the request target. Line separators come on top, at most four bytes a field.
    /// The buffer of an unfinished head has the same limit.
    package var headBytesMax = Limits.requestHeadBytesMax
    /// Header fields of one request, trailers included.
    package var headFieldsMax = 100
    /// From the first byte of a head (or the connection's start) to its end.
    package var headTimeout = Limits.requestHeadTimeout
    /// From the end of the head to the end of the body.
    package var bodyTimeout = Limits.requestBodyTimeout
    /// How long a kept-alive connection may be idle.
    package var keepAliveIdleTimeout = Limits.keepAliveIdleTimeout
    /// Open connections of the listener; further ones wait in the kernel's queue.
    package var connectionsMax = Limits.connectionsMax
    /// How long nothing is accepted after the kernel refused a connection, as without a descriptor left; less if one of
    /// the listener's own connections closes.
    package var acceptRest: Duration = .milliseconds(500)
    /// How often at most it is reported that nothing can be accepted for want of descriptors.
    package var acceptReportInterval: Duration = .seconds(60)
    /// Length of that queue.
    package var backlog = Limits.listenBacklog
    /// No connection is accepted while fewer descriptors are left: deliveries and the database need some, too.
    package var descriptorsReserved = 64
    /// Bytes of one burst of reading, a power of two. Requests that were sent ahead are parsed and kept until those
    /// before them are answered: some 600 small ones fit in, and take about ten times as much memory.
    package var readBytesMax = 16 << 10
    /// Bytes that are kept of a connection before their turn. A burst, behind the rest of a head that came before it;
    /// TLS may let go of as much again at once.
    package var keptBytesMax: Int { 2 * readBytesMax + headBytesMax }
    /// Bytes of a refused request's body that are read and dropped so that the connection can be kept.
    package var discardBytesMax = 64 << 10
    /// Bytes of all unfinished bodies of the listener together; the request that exceeds it is answered 503.
    package var partialBodiesBytesMax = 64 << 20
    /// How long the last answer of a connection may take to be written out.
    package var lastAnswerTimeout: Duration = .seconds(20)
    /// After an answer that came before the request was read: how long and how much is still read and dropped, so that
    /// the answer is not lost to a reset (RFC 9112 section 9.6).
    package var lingerTimeout: Duration = .seconds(2)
    package var lingerBytesMax = 1 << 20
    /// While draining: how long an idle connection stays open for a request that is on its way already.
    package var drainIdleGrace: Duration = .milliseconds(200)
    /// The same for a connection without a request so far: it was opened to send one, and a TLS handshake over a long
    /// line takes half a second. Closing it would reject a webhook.
    package var drainFreshGrace: Duration = .seconds(2)

    package init() {}
}

/// The waits of `HTTPServerLimits` in NIO's unit, converted once per listener and not once per request.
struct Waits: Sendable {
    let head: TimeAmount
    let body: TimeAmount
    let idle: TimeAmount
    let lastAnswer: TimeAmount
    let linger: TimeAmount
    let drainIdle: TimeAmount
    let drainFresh: TimeAmount

    init(_ limits: HTTPServerLimits) {
        head = TimeAmount(limits.headTimeout)
        body = TimeAmount(limits.bodyTimeout)
        idle = TimeAmount(limits.keepAliveIdleTimeout)
        lastAnswer = TimeAmount(limits.lastAnswerTimeout)
        linger = TimeAmount(limits.lingerTimeout)
        drainIdle = TimeAmount(limits.drainIdleGrace)
        drainFresh = TimeAmount(limits.drainFreshGrace)
    }
}
