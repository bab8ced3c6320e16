internal import Vocabulary

/// The name of a stored secret. It is a file's, a systemd credential's, and a word of the configuration.
package enum SecretName {
    /// systemd and file names allow 255 bytes; the temporary file beside a secret needs some of them.
    package static let bytesMax = 128

    /// After "the name must be ".
    package static let expected =
        "1 to \(bytesMax) of A-Z a-z 0-9 _ . -, beginning with a letter, a digit or _, and not a secret itself"

    /// Stricter than systemd (systemd.exec(5), LoadCredential=: a file name of ASCII without a colon). The name needs
    /// no quotes in a shell, a unit and the configuration, is no option and no hidden file.
    package static func isValid(_ text: String) -> Bool {
        guard let first = text.utf8.first, text.utf8.count <= bytesMax, !SourceText.looksSecret(text) else {
            return false
        }
        return first != UInt8(ascii: ".") && first != UInt8(ascii: "-")
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_.-".utf8.contains($0) }
    }
}
