import Foundation
import Testing
import Vocabulary

/// The oracle that is not ours: PyPI `schemathesis` reads openapi.json from the running server and holds thousands of
/// made-up requests against it, all of its checks on. Runs where POSTHOUSE_TEST_PYTHON names a Python that has it.
@Suite struct APISchemathesisTests {
    private static let tool = ProcessInfo.processInfo.environment["POSTHOUSE_TEST_PYTHON"].map {
        ($0 as NSString).deletingLastPathComponent + "/schemathesis"
    }
    private static var isThere: Bool { tool.map { FileManager.default.isExecutableFile(atPath: $0) } ?? false }

    @Test(
        "schemathesis finds nothing",
        .enabled(if: isThere, "set POSTHOUSE_TEST_PYTHON to a Python with the package schemathesis"))
    func nothingIsFound() throws {
        // A machine that stands still causes a 503, which a second run does not show; it never causes a 500. The seed
        // makes both runs ask the same.
        var found = try run()
        if !found.isEmpty, !found.contains("[500]") {
            print("schemathesis runs again: \(found)")
            found = try run()
        }
        #expect(found.isEmpty, "\(found)")
    }

    /// - Returns: its last words, if it finds something; else nothing.
    private func run() throws -> String {
        let relay = try Relay.running(
            [], sources: [.init(), .init(name: "qonversion", secrets: ["qonversion-token"])],
            settings: "[[subscription_group]]\nname = \"gold\"\nproducts = [\"gold.month\"]\n")
        defer { relay.end() }
        #expect(try relay.source().post(Webhook("ACTIVATE", .user("jeff"), purchase: "subs_1")) == 200)
        let here = (#filePath as NSString).deletingLastPathComponent
        // A fixed seed: what is found today is found tomorrow.
        let child = try ChildProcess([
            // It leaves a folder where it runs.
            "/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", relay.directory.path, Self.tool ?? "", "--config-file",
            here + "/../APITests/schemathesis.toml", "run",
            "http://127.0.0.1:\(relay.port)/v1/openapi.json", "-H", "Authorization: Bearer \(Relay.apiToken)",
            "--checks", "all", "--max-examples", "10", "--seed", "1", "--no-color",
        ])
        let end = child.waitForEnd(900)
        child.signal(SIGKILL)
        #expect(try relay.ask("GET", "/v1/entitlements?user_id=jeff").text.contains(#""active":true"#))
        if end == .exited(0), child.output.contains(where: { $0.contains("No issues found") }) { return "" }
        let words = child.output.suffix(60) + child.errors.suffix(20)
        return "\(String(describing: end))\n" + words.joined(separator: "\n")
    }
}
