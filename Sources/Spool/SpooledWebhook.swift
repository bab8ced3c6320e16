package import Vocabulary

/// A webhook as it waits in the spool: it was authentic, and nothing of it has been read. Neither a credential nor a
/// signature is kept.
///
/// A file is a text and then the body, byte for byte:
///
///     posthouse-spool 1
///     checksum 995dc9bbdf1939fa
///     source apphud
///     received 1764079200123
///     header webhook-id msg_1
///     body 1234
///
/// An empty line stands before the body. The checksum is that of all behind its own line.
package struct SpooledWebhook: Sendable, Hashable {
    package struct Header: Sendable, Hashable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package let source: String
    /// Of its request, by the clock of the machine that wrote it.
    package let receivedAt: Timestamp
    /// Those that its source's adapter reads besides the body.
    package let headers: [Header]
    package let body: [UInt8]

    package init(source: String, receivedAt: Timestamp, headers: [Header], body: [UInt8]) {
        self.source = source
        self.receivedAt = receivedAt
        self.headers = headers
        self.body = body
    }

    /// The value of a header field; the name may be in any case.
    package func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    // MARK: As a file

    /// Bytes of the text before a body, at most: the names and values of its headers come from a request's head.
    static let textBytesMax = Limits.requestHeadBytesMax + 1_024

    private static let formName = "posthouse-spool "
    private static let form = formName + "1\n"
    private static let checksumBytes = "checksum 0123456789abcdef\n".utf8.count

    package var file: [UInt8] {
        var text = "source \(source)\nreceived \(receivedAt.milliseconds)\n"
        // An end of line in a value would be another line of the text; HTTP lets none through.
        for header in headers where HeaderField.isName(header.name) && HeaderField.isValue(header.value.utf8) {
            text += "header \(header.name) \(header.value)\n"
        }
        text += "body \(body.count)\n\n"
        let rest = Array(text.utf8) + body
        return Array(Self.form.utf8) + Self.checksumLine(of: rest[...]) + rest
    }

    /// Why a file cannot be read, for a person. It quotes nothing of it.
    package struct Damage: Error, Sendable, Hashable, CustomStringConvertible {
        package let description: String
        /// Its first line names a form of another version, which can read it.
        package var isOtherForm = false
    }

    package init(file: [UInt8]) throws(Damage) {
        guard file.starts(with: Self.form.utf8) else {
            throw Damage(
                description: "its first line is not of a form that this version knows",
                isOtherForm: Self.isOtherForm(file))
        }
        let rest = file.dropFirst(Self.form.utf8.count + Self.checksumBytes)
        let written = file.dropFirst(Self.form.utf8.count).prefix(Self.checksumBytes)
        guard written.elementsEqual(Self.checksumLine(of: rest)) else {
            throw Damage(description: "its checksum is not that of its content")
        }
        guard let webhook = Self(text: rest) else { throw Damage(description: "its lines cannot be read") }
        self = webhook
    }

    private static func isOtherForm(_ file: [UInt8]) -> Bool {
        guard file.starts(with: formName.utf8), let end = file.firstIndex(of: UInt8(ascii: "\n")) else { return false }
        let number = file[..<end].dropFirst(formName.utf8.count)
        return !number.isEmpty && number.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    /// nil: it is not what `file` writes.
    private init?(text: ArraySlice<UInt8>) {
        var rest = text
        /// What stands behind a word in the next line; nil: the line begins otherwise.
        func line(_ word: String) -> String? {
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            let line = rest[..<end]
            guard line.starts(with: "\(word) ".utf8) else { return nil }
            rest = rest[(end + 1)...]
            return String(decoding: line.dropFirst(word.utf8.count + 1), as: UTF8.self)
        }
        guard let source = line("source"), let received = line("received").flatMap({ Int64($0) }) else { return nil }
        var headers: [Header] = []
        while let header = line("header") {
            let parts = header.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return nil }
            headers.append(Header(name: String(parts[0]), value: String(parts[1])))
        }
        guard let count = line("body").flatMap({ Int($0) }), rest.first == UInt8(ascii: "\n"),
            rest.count == count + 1
        else { return nil }
        self.init(
            source: source, receivedAt: Timestamp(milliseconds: received), headers: headers,
            body: Array(rest.dropFirst()))
    }

    private static func checksumLine(of bytes: ArraySlice<UInt8>) -> [UInt8] {
        let digits = String(CRC64.checksum(of: bytes), radix: 16)
        return Array("checksum \(String(repeating: "0", count: 16 - digits.utf8.count))\(digits)\n".utf8)
    }
}
