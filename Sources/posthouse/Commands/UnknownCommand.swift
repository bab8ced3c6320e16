import ArgumentParser
import Configuration
import Observing

/// A word in the place of a command that is none. The parser calls it an unexpected argument, together with all that
/// follows it, and takes no notice of it where `--help` follows.
enum UnknownCommand {
    private static let help = "help"

    /// The error about the first such word: what was meant, where that is close enough; nil if there is none.
    /// Judged are the words before the first option. Commands that have commands take no other words.
    /// - Parameter words: the command line without the program's name.
    static func problem(_ words: [String], of root: any ParsableCommand.Type) -> String? {
        var command = root
        var path: [String] = []
        for word in words {
            let commands = command.configuration.subcommands
            if commands.isEmpty || word.hasPrefix("-") { return nil }
            // The parser's own: `posthouse help status`.
            if path.isEmpty, word == help { continue }
            guard let next = commands.first(where: { $0.configuration.commandName == word }) else {
                let names = commands.compactMap { $0.configuration.commandName } + (path.isEmpty ? [help] : [])
                return problem(word, behind: path, among: names)
            }
            path.append(word)
            command = next
        }
        return nil
    }

    private static func problem(_ word: String, behind path: [String], among names: [String]) -> String {
        // A secret in the place of a word is not repeated.
        guard !SecretText.looksSecret(word) else { return withheld(path) }
        func line(_ last: String) -> String { PlainText.harmless((path + [last]).joined(separator: " ")) }
        let hint = NearMiss.find(word, among: names).map { "; did you mean `\(line($0))`?" } ?? ""
        return """
            Error: there is no command `\(line(word))`\(hint)
              See '\((["posthouse"] + path + ["--help"]).joined(separator: " "))' for more information.
            """
    }

    /// The error about a command line whose words the parser refuses and would repeat, with a secret among them;
    /// nil for any other.
    static func secretProblem(_ words: [String], of root: any ParsableCommand.Type) -> String? {
        guard words.contains(where: SecretText.looksSecret) else { return nil }
        do {
            _ = try root.parseAsRoot(words)
            return nil
        } catch {
            let isRefused = root.exitCode(for: error) != .success
            return isRefused && SecretText.looksSecret(root.fullMessage(for: error)) ? withheld([]) : nil
        }
    }

    private static func withheld(_ path: [String]) -> String {
        """
        Error: a word of the command line looks like a secret, and is not repeated. A secret comes on standard input: \
        posthouse secret add NAME <FILE. This one may be in the history of the shell now: replace it.
          See '\((["posthouse"] + path + ["--help"]).joined(separator: " "))' for more information.
        """
    }
}
