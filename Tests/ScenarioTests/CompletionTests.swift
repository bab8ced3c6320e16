import Foundation
import Testing

/// What a shell offers for names. Oracle: bash, with the script that the package installs.
@Suite struct CompletionTests {
    /// Does what bash does when a person presses TAB behind the last of the words ($2…): $1 is the program.
    private static let press = """
        binary=$1; shift
        eval "$("$binary" --generate-completion-script bash)"
        COMP_WORDS=("$binary" "$@"); COMP_CWORD=$#
        COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
        _posthouse "$binary" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        if ((${#COMPREPLY[@]})); then printf '%s\\n' "${COMPREPLY[@]}"; fi
        """

    /// Nothing of it is checked: the secret's file is not there, and a key is unknown.
    private static let text = """
        [[source]]
        name = "purchasely"
        kind = "purchasely"
        secret = { file = "/nowhere/secret" }
        [[source]]
        name = "web.shop"
        [[integration]]
        name = "backend"
        colour = "grey"
        [[integration]]
        name = "analytics"
        """

    private func offers(_ words: [String], environment: [String: String] = [:]) throws -> [String] {
        let child = try ChildProcess(
            ["/bin/bash", "--norc", "-c", Self.press, "bash", try Relay.binary.get()] + words, environment: environment)
        #expect(child.waitForEnd(180) == .exited(0), "\(words)")
        #expect(child.errors == [], "\(words): \(child.errors)")
        return child.output
    }

    @Test("bash offers the names of the configuration that the line names")
    func names() throws {
        let directory = try ScratchDirectory()
        let file = try directory.write("p.toml", Self.text)
        let config = ["--config", file]
        for command in ["pause", "resume", "retry", "backfill", "discard"] {
            #expect(try offers([command] + config + [""]) == ["backend", "analytics"], "\(command)")
        }
        for command in ["deliveries", "replay", "audit"] {
            #expect(try offers([command] + config + ["--integration", ""]) == ["backend", "analytics"], "\(command)")
        }
        for command in ["events", "repair", "erase", "export"] {
            #expect(try offers([command] + config + ["--source", ""]) == ["purchasely", "web.shop"], "\(command)")
        }
        #expect(try offers(["pause"] + config + ["ba"]) == ["backend"])
        #expect(try offers(["import"] + config + [""]) == ["purchasely", "web.shop"])
        // bash makes three words of --config=FILE.
        #expect(try offers(["deliveries", "--config", "=", file, "--integration", "an"]) == ["analytics"])
    }

    @Test("A configuration that cannot be used offers nothing, and says nothing")
    func unusable() throws {
        let directory = try ScratchDirectory()
        let broken = try directory.write("broken.toml", "[[integration]\nname = \"backend\"\n")
        for file in [broken, directory.path, directory.path + "/none.toml"] {
            #expect(try offers(["pause", "--config", file, ""]) == [], "\(file)")
        }
    }

    @Test("send is offered the kinds, and the events and the proofs of the kind on the line")
    func kinds() throws {
        #expect(try offers(["send", "--kind", "re"]) == ["revenuecat"])
        #expect(try offers(["send", "--kind", ""]).count == 9)
        #expect(try offers(["send", "--event", "ACTI"]) == ["ACTIVATE"])
        #expect(try offers(["send", "--kind", "sessions", "--event", "SESSION_LO"]).contains("SESSION_LOGIN"))
        #expect(try offers(["send", "--kind", "revenuecat", "--auth", ""]) == ["token", "signature"])
        #expect(try offers(["send", "--kind", "nonsense", "--auth", ""]) == ["signature"])
        #expect(try offers(["replay", "--event", "SUBSCRIPTION_RECEI"]) == ["SUBSCRIPTION_RECEIVED"])
    }

    @Test("A file's name is taken as it was typed: in quotes, with backslashes, below the home directory, behind =")
    func spellings() throws {
        let directory = try ScratchDirectory()
        let file = try directory.write("p 1.toml", Self.text)
        let words: [[String]] = [
            ["--config", "'\(file)'"], ["--config", "\"\(file)\""],
            ["--config", file.replacingOccurrences(of: " ", with: "\\ ")], ["--config='\(file)'"],
            ["--config", "~/'p 1.toml'"],
        ]
        // As zsh asks: the words, the number of the one to complete, and the cursor in it.
        for spelling in words {
            let line = ["posthouse", "pause"] + spelling + ["b"]
            let child = try ChildProcess(
                [try Relay.binary.get(), "---completion", "pause", "--", "positional@0", "\(line.count - 1)", "1"]
                    + line, environment: ["HOME": directory.path])
            #expect(child.waitForEnd(180) == .exited(0), "\(spelling): \(child.errors)")
            #expect(child.output == ["backend", "analytics"], "\(spelling)")
        }
    }
}
