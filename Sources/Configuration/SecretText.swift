package import Vocabulary

/// A secret as it is handed in and as its file holds it.
package enum SecretText {
    /// Why bytes that were handed in are no secret. Nothing here holds any of them.
    package enum Refusal: Error, Sendable, Hashable {
        case empty
        case tooLong
        case zeroByte

        package var text: String {
            switch self {
            case .empty: "the secret is empty: nothing was stored; paste it, or hand it over: … <FILE"
            case .tooLong:
                "the secret and its line break have more than \(SizeText.write(ConfigurationLimits.secretBytesMax)): "
                    + "nothing was stored"
            case .zeroByte: "the secret has a zero byte, so it is not text: nothing was stored"
            }
        }
    }

    /// Of a secret; its file has a line break more, and is read up to `ConfigurationLimits.secretBytesMax`.
    package static let bytesMax = ConfigurationLimits.secretBytesMax - 1

    /// The contents of a secret's file without the one line break that editors and `echo` leave at its end.
    package static func withoutLineBreak(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        }
        return bytes
    }

    /// The secret as it is stored: without the line break that a terminal, too, leaves at its end.
    package static func read(_ bytes: [UInt8]) throws(Refusal) -> Secret {
        var bytes = withoutLineBreak(bytes)
        // Also without a line feed: its file adds one, and the daemon removes a CR before that.
        while bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        guard bytes.contains(where: { !blanks.contains($0) }) else { throw .empty }
        guard bytes.count <= bytesMax else { throw .tooLong }
        guard !bytes.contains(0) else { throw .zeroByte }
        return Secret(bytes)
    }

    /// The bytes of the file: the daemon removes the line break.
    package static func file(_ secret: Secret) -> [UInt8] { secret.withBytes { $0 + [UInt8(ascii: "\n")] } }

    /// Whether a word has the mark of a key that signs, so that no message may repeat it.
    package static func looksSecret(_ text: String) -> Bool { SourceText.looksSecret(text) }

    /// Whether it is a key or a certificate in PEM (RFC 7468).
    package static func isPEM(_ secret: Secret) -> Bool { secret.withBytes { beginsPEM($0) } }

    /// Whether a line is the first one of PEM.
    package static func beginsPEM(_ line: [UInt8]) -> Bool {
        line.drop { blanks.contains($0) }.starts(with: Array("-----BEGIN".utf8))
    }

    private static let blanks = Array(" \t\r\n".utf8)
}
