import NIOHTTP1

/// What a head says about the message around it, checked before any handler sees it. The parser is strict already. This
/// adds the rules whose violation lets two programs on one connection disagree about where a request ends (request
/// smuggling), and those that RFC 9112 leaves to the server.
struct Framing: Hashable {
    enum Body: Hashable {
        case none
        case length(Int)
        case chunked
    }

    let body: Body
    /// The target in origin-form, or "*".
    let target: Substring
    /// The client waits for 100 before it sends the body.
    let expectsContinue: Bool
    let isHead: Bool
    let isOldVersion: Bool
    let keepsAlive: Bool

    /// Throws the answer for a head that must not be served.
    init(_ head: HTTPRequestHead) throws(Unservable) {
        var hosts = 0
        var length: Int?
        var codings = 0
        var expectation: String?
        var upgrades = false
        for (name, value) in head.headers {
            if value.utf8.contains(where: { $0 == 0x0D || $0 == 0x0A || $0 == 0 }) {
                throw Unservable(400, "a header field spans several lines")  // RFC 9112 section 5.2
            }
            switch name.utf8.count {
            case 4 where name.lowercased() == "host": hosts += 1
            case 6 where name.lowercased() == "expect": expectation = value
            case 7 where name.lowercased() == "upgrade": upgrades = true
            case 14 where name.lowercased() == "content-length":
                guard length == nil, let bytes = Self.length(value) else {
                    throw Unservable(400, "content-length is not one number")
                }
                length = bytes
            case 17 where name.lowercased() == "transfer-encoding":
                codings += 1
                guard codings == 1, value.lowercased() == "chunked" else {
                    throw Unservable(501, "of transfer encodings only chunked is understood")
                }
            default: break
            }
        }
        isOldVersion = head.version.minor == 0
        try Self.check(hosts: hosts, isOldVersion: isOldVersion)
        if codings > 0 {
            // RFC 9112 section 6.1: in both cases the end of the message is in doubt.
            if length != nil { throw Unservable(400, "content-length and transfer-encoding exclude each other") }
            if isOldVersion { throw Unservable(400, "HTTP/1.0 has no transfer-encoding") }
            body = .chunked
        } else {
            body = length.map { $0 == 0 ? .none : .length($0) } ?? .none
        }
        if let expectation, expectation.lowercased() != "100-continue" {
            throw Unservable(417, "of expectations only 100-continue is understood")
        }
        expectsContinue = expectation != nil && !isOldVersion && body != .none
        target = try Self.target(head)
        isHead = head.method == .HEAD
        // The parser stops after a request for another protocol. Posthouse does not switch: it answers in HTTP/1.1, and
        // the request is the last one.
        keepsAlive = head.isKeepAlive && !upgrades
    }

    /// Of a request that is read in place: its length alone frames it.
    init(_ request: WholeRequest, bodyBytes: Int) {
        body = bodyBytes == 0 ? .none : .length(bodyBytes)
        target = request.target[...]
        expectsContinue = false
        isHead = false
        isOldVersion = false
        keepsAlive = true
    }

    /// RFC 9112 section 3.2: a request of HTTP/1.1 has exactly one Host.
    private static func check(hosts: Int, isOldVersion: Bool) throws(Unservable) {
        guard hosts == 1 || (isOldVersion && hosts == 0) else {
            throw Unservable(400, hosts == 0 ? "the host field is missing" : "there is more than one host field")
        }
    }

    /// Only digits: no sign, no list. A number that Int cannot hold becomes Int.max.
    private static func length(_ value: String) -> Int? {
        guard !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(value) ?? .max
    }

    /// Origin-form as it is, absolute-form without scheme and authority (RFC 9112 section 3.2.2), "*" for OPTIONS.
    private static func target(_ head: HTTPRequestHead) throws(Unservable) -> Substring {
        let uri = head.uri[...]
        if head.method == .CONNECT { throw Unservable(501, "this is not a proxy") }
        if uri.utf8.first == UInt8(ascii: "/") { return uri }
        if uri == "*", head.method == .OPTIONS { return uri }
        for scheme in ["http://", "https://"] where uri.lowercased().hasPrefix(scheme) {
            let rest = uri.dropFirst(scheme.count)
            guard let end = rest.utf8.firstIndex(where: { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") }) else {
                return "/"
            }
            return rest[end...].hasPrefix("/") ? rest[end...] : Substring("/" + rest[end...])
        }
        throw Unservable(400, "the request target does not begin with a slash")
    }
}

/// A request that the HTTP server answers by itself; the answer ends the connection.
struct Unservable: Error {
    let answer: HTTPAnswer
    let reason: String

    init(_ status: Int, _ reason: String) {
        answer = .refusal(status, reason)
        self.reason = reason
    }
}

extension Unservable {
    init(_ answer: HTTPAnswer, _ reason: String) {
        self.answer = answer
        self.reason = reason
    }

    /// For an error of the parser.
    init(_ error: HTTPParserError) {
        switch error {
        case .headerOverflow: self.init(.headTooLarge, "the head is too large")
        default: self.init(.malformed, "the parser refused it: \(error)")
        }
    }
}
