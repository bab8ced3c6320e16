import Foundation
import Glibc
import Testing

/// A client that knows nothing of the server's code: a blocking socket, bytes as the test writes them, and the smallest
/// reading of an answer. Each call blocks a thread of its own and not one of the tests' pool.
final class RawClient: Sendable {
    struct Answer: Equatable {
        var status: Int
        var headers: [String: String]
        var body: String
    }

    struct Ended: Error, CustomStringConvertible {
        let description: String
        var isRefusal = false
    }

    let descriptor: CInt

    /// `address` as `HTTPListener.boundAddress` says it.
    init(_ address: String) throws {
        if address.hasPrefix("unix:") {
            descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
            var name = sockaddr_un()
            name.sun_family = sa_family_t(AF_UNIX)
            let path = Array(address.dropFirst(5).utf8)
            withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: path) }
            try Self.connect(descriptor, &name)
        } else {
            descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
            var name = sockaddr_in()
            name.sin_family = sa_family_t(AF_INET)
            name.sin_addr.s_addr = inet_addr("127.0.0.1")
            name.sin_port = UInt16(try #require(address.split(separator: ":").last.flatMap { UInt16($0) })).bigEndian
            try Self.connect(descriptor, &name)
        }
        // A test that waits for what never comes fails after this, and does not hang.
        var timeout = timeval(tv_sec: 900, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    private static func connect<Name>(_ descriptor: CInt, _ name: inout Name) throws {
        let size = socklen_t(MemoryLayout<Name>.size)
        let result = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
        guard result == 0 else {
            let refused = errno == ECONNREFUSED
            throw Ended(description: "connect: \(String(cString: strerror(errno)))", isRefusal: refused)
        }
    }

    /// Nobody listens there any more; any other reason not to connect, such as a port used up, says nothing of that.
    static func isRefused(_ address: String) -> Bool {
        do {
            _ = try RawClient(address)
            return false
        } catch let ended as Ended {
            return ended.isRefusal
        } catch {
            return false
        }
    }

    func send(_ text: String) async throws { try await send(bytes: Array(text.utf8)) }

    func send(bytes: [UInt8]) async throws {
        try await offPool { [descriptor] in
            var rest = bytes[...]
            while !rest.isEmpty {
                let sent = rest.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
                }
                guard sent > 0 else { throw Ended(description: "send: \(String(cString: strerror(errno)))") }
                rest = rest.dropFirst(sent)
            }
        }
    }

    func endOutput() { shutdown(descriptor, CInt(SHUT_WR)) }

    /// Reads one answer and not a byte more; `hasBody` false for the answer to HEAD.
    func answer(hasBody: Bool = true) async throws -> Answer {
        try await offPool { [self] in try readAnswer(hasBody: hasBody) }
    }

    /// So many, read by one thread.
    func answers(_ count: Int) async throws -> [Answer] {
        try await offPool { [self] in try (0..<count).map { _ in try readAnswer(hasBody: true) } }
    }

    private func readAnswer(hasBody: Bool) throws -> Answer {
        var head = [UInt8]()
        while head.suffix(4) != [13, 10, 13, 10] { head.append(try byte()) }
        let lines = String(decoding: head, as: UTF8.self).components(separatedBy: "\r\n")
        let status = try #require(lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) })
        var headers = [String: String]()
        for line in lines.dropFirst() where !line.isEmpty {
            let colon = try #require(line.firstIndex(of: ":"))
            headers[line[..<colon].lowercased()] =
                line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        }
        var body = [UInt8]()
        if hasBody { for _ in 0..<(headers["content-length"].flatMap { Int($0) } ?? 0) { body.append(try byte()) } }
        return Answer(status: status, headers: headers, body: String(decoding: body, as: UTF8.self))
    }

    func exchange(_ text: String) async throws -> Answer {
        try await send(text)
        return try await answer()
    }

    /// What comes until the server ends the connection; an abort is an error, as is silence.
    func rest() async throws -> String {
        try await offPool { [descriptor] in
            var all = [UInt8]()
            var chunk = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = recv(descriptor, &chunk, chunk.count, 0)
                if count == 0 { return String(decoding: all, as: UTF8.self) }
                guard count > 0 else { throw Ended(description: "recv: \(String(cString: strerror(errno)))") }
                all += chunk[..<count]
            }
        }
    }

    private func byte() throws -> UInt8 {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, 0)
        guard count == 1 else {
            throw Ended(description: count == 0 ? "end of stream" : "recv: \(String(cString: strerror(errno)))")
        }
        return byte
    }
}

/// Runs blocking work on a thread of its own.
func offPool<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try work() }) }
    }
}
