import Configuration
import Inbound
import Vocabulary

/// The certificates that `send` signs Apple's notifications with: four files in a directory, made where there are none.
struct SampleChain {
    let chain: AppleChain
    let isNew: Bool

    /// The line of a source that accepts what the chain signs.
    var roots: String { "roots = [\"sha256:\(Identifier.hex(of: chain.fingerprint))\"]" }

    /// - Parameter directory: made if it is missing, for its owner alone.
    init(in directory: String) throws {
        let path = Examination.absolute(directory)
        let files = try Self.read(path)
        isNew = files.isEmpty
        do throws(AppleChain.Failure) {
            chain = try isNew ? AppleChain.make() : AppleChain(files: files)
        } catch {
            throw OperatorError("--chain \(directory): \(error)")
        }
        if isNew { try write(to: path) }
    }

    private static func read(_ directory: String) throws -> [AppleChain.File: [UInt8]] {
        var files: [AppleChain.File: [UInt8]] = [:]
        for file in AppleChain.File.allCases {
            let path = "\(directory)/\(file.rawValue)"
            switch SecretReader.system.readFile(path, AppleChain.fileBytesMax) {
            case .success(let found): files[file] = found.bytes
            case .failure(.notFound): continue
            case .failure(let failure): throw OperatorError("\(path) cannot be read: \(failure.text)")
            }
        }
        return files
    }

    private func write(to directory: String) throws {
        try SecretStore.makeDirectory(directory, mode: 0o700)
        for file in AppleChain.File.allCases {
            try SecretStore.write(
                chain.pem(file), to: "\(directory)/\(file.rawValue)", mode: file == .key ? 0o600 : 0o644,
                replacing: .nothing)
        }
    }
}
