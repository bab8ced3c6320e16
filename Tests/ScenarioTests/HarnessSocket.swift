import Foundation

/// A blocking TCP socket on loopback, with a limit to each wait. Used by one thread at a time.
struct Socket {
    let descriptor: Int32

    static func connect(port: UInt16, timeout seconds: Int = 180) throws -> Socket {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw HarnessFailure(call: "socket") }
        var address = loopback(port)
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else {
            defer { close(descriptor) }
            throw HarnessFailure(call: "connect to port \(port)")
        }
        let socket = Socket(descriptor: descriptor)
        socket.prepare(timeout: seconds)
        return socket
    }

    /// A listening socket and its port, which the kernel chooses.
    static func listen() throws -> (socket: Socket, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw HarnessFailure(call: "socket") }
        guard try bind(descriptor, port: 0), Foundation.listen(descriptor, 1_024) == 0 else {
            defer { close(descriptor) }
            throw HarnessFailure(call: "bind and listen")
        }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return (Socket(descriptor: descriptor), UInt16(bigEndian: address.sin_port))
    }

    /// A port for a daemon, outside the range that the kernel gives to connecting sockets. It stays bound here, without
    /// listening, until this process ends, so that no other process of the tests is given it before the daemon listens
    /// or while it is started again: a server that sets SO_REUSEADDR, as all of them do, can listen on it all the same.
    static func freePort() throws -> UInt16 {
        for _ in 0..<200 {
            let port = UInt16.random(in: 10_000..<32_000)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else { throw HarnessFailure(call: "socket") }
            guard try bind(descriptor, port: port) else {
                close(descriptor)
                continue
            }
            // Not before: with it, a port that another process keeps in this way could be bound.
            var on: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
            return port
        }
        throw HarnessFailure("no free port was found")
    }

    private static func bind(_ descriptor: Int32, port: UInt16) throws -> Bool {
        var address = loopback(port)
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Foundation.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        } == 0
    }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    func prepare(timeout seconds: Int) {
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw HarnessFailure(call: "send") }
            sent += count
        }
    }

    /// Empty at the end of the stream.
    func receive() throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw HarnessFailure(call: "recv") }
            return Array(buffer[..<count])
        }
    }
}

/// One HTTP/1.1 message: a request or an answer.
struct HTTPMessage: Sendable {
    /// Request line or status line.
    var start: String
    /// Names in lower case, in their order.
    var headers: [(name: String, value: String)]
    var body: [UInt8]

    subscript(name: String) -> String? { headers.first { $0.name == name.lowercased() }?.value }

    /// Of an answer; 0 where the status line cannot be read.
    var status: Int { start.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0 }

    var text: String { String(decoding: body, as: UTF8.self) }
}

/// Reads HTTP/1.1 messages one after another from a socket.
struct HTTPReader {
    let socket: Socket
    private var buffer: [UInt8] = []

    init(_ socket: Socket) { self.socket = socket }

    /// Nil at an orderly end between two messages.
    mutating func next(isAnswer: Bool, hasBody: Bool = true) throws -> HTTPMessage? {
        while true {
            guard let head = try head() else { return nil }
            var message = head
            // An interim answer comes before the real one.
            if isAnswer, (100..<200).contains(message.status) { continue }
            if isAnswer, !hasBody || message.status == 204 || message.status == 304 { return message }
            if let length = message["content-length"].flatMap({ Int($0) }) {
                message.body = try take(length)
            } else if message["transfer-encoding"] == "chunked" {
                message.body = try chunks()
            } else if isAnswer {
                while try fill() {}
                message.body = try take(buffer.count)
            }
            return message
        }
    }

    private mutating func head() throws -> HTTPMessage? {
        let end = Array("\r\n\r\n".utf8)
        var searched = 0
        while true {
            if let range = buffer[searched...].firstRange(of: end) {
                let lines = String(decoding: buffer[..<range.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
                buffer.removeFirst(range.upperBound)
                let headers = lines.dropFirst().map { line in
                    let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                    let value = parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : ""
                    return (name: parts[0].lowercased(), value: value)
                }
                return HTTPMessage(start: lines[0], headers: headers, body: [])
            }
            searched = max(0, buffer.count - 3)
            if try !fill() {
                if buffer.isEmpty { return nil }
                throw HarnessFailure("the connection ended inside a message")
            }
        }
    }

    private mutating func chunks() throws -> [UInt8] {
        var body: [UInt8] = []
        while true {
            let size = Int(try line(), radix: 16) ?? 0
            body += try take(size)
            _ = try line()
            if size == 0 { return body }
        }
    }

    private mutating func line() throws -> String {
        while true {
            if let range = buffer.firstRange(of: [0x0d, 0x0a]) {
                defer { buffer.removeFirst(range.upperBound) }
                return String(decoding: buffer[..<range.lowerBound], as: UTF8.self)
            }
            if try !fill() { throw HarnessFailure("the connection ended inside a message") }
        }
    }

    private mutating func take(_ count: Int) throws -> [UInt8] {
        while buffer.count < count {
            if try !fill() { throw HarnessFailure("the connection ended inside a message") }
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    private mutating func fill() throws -> Bool {
        let bytes = try socket.receive()
        buffer += bytes
        return !bytes.isEmpty
    }
}

/// A kept-alive connection of a client. Used by one thread at a time.
final class HTTPClient {
    let port: UInt16
    private var reader: HTTPReader?

    init(port: UInt16) { self.port = port }

    deinit { disconnect() }

    func disconnect() {
        if let reader { close(reader.socket.descriptor) }
        reader = nil
    }

    /// Sends one request and reads its answer. Throws if there is none; whether the request arrived is not known then.
    func request(
        _ method: String, _ path: String, headers: [(String, String)] = [], body: [UInt8] = []
    ) throws -> HTTPMessage {
        var head = "\(method) \(path) HTTP/1.1\r\nhost: 127.0.0.1:\(port)\r\n"
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        if method == "POST" { head += "content-length: \(body.count)\r\n" }
        do {
            if reader == nil { reader = HTTPReader(try Socket.connect(port: port)) }
            try reader?.socket.send(Array((head + "\r\n").utf8) + body)
            guard let answer = try reader?.next(isAnswer: true, hasBody: method != "HEAD") else {
                throw HarnessFailure("the connection was closed instead of an answer")
            }
            if answer["connection"] == "close" { disconnect() }
            return answer
        } catch {
            disconnect()
            throw error
        }
    }
}
