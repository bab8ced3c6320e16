import Configuration
import Vocabulary

/// Reads secrets for `send` and `listen`, which take no configuration.
enum SecretFile {
    static func read(_ path: String) throws -> Secret {
        switch SecretReader.system.readFile(path, 64 << 10) {
        case .success(let file):
            let bytes = SecretText.withoutLineBreak(file.bytes)
            guard !bytes.isEmpty else { throw OperatorError("\(path) is empty; it must hold the secret") }
            return Secret(bytes)
        case .failure(let failure): throw OperatorError("\(path) cannot be read: \(failure.text)")
        }
    }
}
