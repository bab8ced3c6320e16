internal import Vocabulary

/// Where `posthouse secret` stores secrets, and how the daemon gets them.
package struct SecretLocation: Sendable, Hashable {
    /// The service of systemd that gets the secrets as credentials.
    package struct Unit: Sendable, Hashable {
        /// With its suffix: `posthouse.service`.
        package let name: String
        /// The drop-in whose `LoadCredential=` lines name the secrets.
        package var dropIn: String { "/etc/systemd/system/\(name).d/credentials.conf" }
    }

    /// Why no place can be chosen.
    package enum Refusal: Error, Sendable, Hashable {
        /// The usual directory is root's alone.
        case notRoot

        package var text: String {
            switch self {
            case .notRoot:
                "\(SecretLocation.usualDirectory) is root's alone; run this as root (sudo posthouse secret …), or name a "
                    + "directory of your own with --directory DIR"
            }
        }
    }

    /// The directory of the package (posthouse.tmpfiles).
    package static let usualDirectory = "/etc/posthouse/credentials"

    /// Absolute, without a slash at its end.
    package let directory: String
    /// Nil: the daemon reads the files itself.
    package let unit: Unit?

    /// - Parameters:
    ///   - directory: `--directory`; a relative one counts from `workingDirectory`.
    ///   - unit: with its suffix, as `unitName` gives it.
    package static func choose(
        isRoot: Bool, hasSystemd: Bool, directory: String?, workingDirectory: String, unit: String
    ) throws(Refusal) -> SecretLocation {
        if let directory {
            return SecretLocation(directory: absolute(directory, from: workingDirectory), unit: nil)
        }
        guard isRoot else { throw .notRoot }
        return SecretLocation(directory: usualDirectory, unit: hasSystemd ? Unit(name: unit) : nil)
    }

    /// `posthouse` and `posthouse.service` as `posthouse.service`; nil: not the name of a service (systemd.unit(5)).
    package static func unitName(_ text: String) -> String? {
        let suffix = ".service"
        let name = text.hasSuffix(suffix) ? text : text + suffix
        let isPlain = name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_.-:@\\".utf8.contains($0) }
        let isNamed = name.utf8.count > suffix.utf8.count && name.first != "." && name.first != "-"
        return isPlain && isNamed && name.utf8.count <= 255 ? name : nil
    }

    /// A path without `.`, empty parts and slashes at its end; a relative one counts from `workingDirectory`. A `..`
    /// stays: behind a link it leads elsewhere than its text.
    package static func absolute(_ path: String, from workingDirectory: String) -> String {
        let whole = path.hasPrefix("/") ? path : workingDirectory + "/" + path
        return "/" + whole.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
    }

    /// The path of a secret's file.
    package func path(_ name: String) -> String { (directory == "/" ? "" : directory) + "/" + name }

    /// What a key of the configuration says to name the secret: `{ credential = "…" }` or `{ file = "…" }`.
    package func reference(_ name: String) -> String {
        unit != nil ? "{ credential = \"\(name)\" }" : "{ file = \(Self.quoted(path(name))) }"
    }

    /// What `tls` of the configuration says to name a key in PEM, which the daemon opens by its path.
    package func keyReference(_ name: String) -> String {
        "key = " + Self.quoted(unit.map { "/run/credentials/\($0.name)/\(name)" } ?? path(name))
    }

    private static func quoted(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}
