import Testing

@testable import Configuration

/// What the completion of command lines reads of a configuration.
@Suite struct ConfiguredNamesTests {
    private func read(_ file: Result<SecretReader.File, SecretReader.Failure>) -> ConfiguredNames {
        ConfiguredNames.read(
            path: "p.toml",
            reader: SecretReader(
                environment: { name in
                    Issue.record("\(name) was asked for")
                    return nil
                },
                readFile: { path, _ in
                    #expect(path == "p.toml")
                    return file
                }))
    }

    @Test("Names of sources and integrations, in the order of the file; nothing else is read")
    func names() {
        let text =
            Harness.minimal + """
                [[integration]]
                name = "analytics"
                colour = "an unknown key is no matter here"
                secret = { file = "/etc/secret" }
                [[source]]
                name = "a-2.b_c"
                [server]
                name = "no source"
                """
        let names = read(Harness.file(text))
        #expect(names.sources == ["purchasely", "a-2.b_c"])
        #expect(names.integrations == ["backend", "analytics"])
    }

    @Test("What no configuration may have as a name is offered to no shell")
    func harmless() {
        let odd = ["", ".", "..", "a b", "a\\nb", "$(id)", "\\u001b[31m", String(repeating: "n", count: 65)]
        let text = odd.map { "[[source]]\nname = \"\($0)\"\n" }.joined() + "[[source]]\n[[source]]\nname = 5\n"
        #expect(read(Harness.file(text)).sources == [])
        let longest = String(repeating: "n", count: 64)
        #expect(read(Harness.file("[[source]]\nname = \"\(longest)\"\n")).sources == [longest])
    }

    @Test(
        "A file that cannot be read, is no TOML or has other tables under these names has no names",
        arguments: ["[[source]\nname = \"a\"", "source = 5\nintegration = [1, 2]", "[source]\nname = \"a\"", ""])
    func none(text: String) {
        let none = ConfiguredNames(sources: [], integrations: [])
        #expect(read(Harness.file(text)) == none)
        #expect(read(.failure(.notPermitted)) == none)
    }
}
