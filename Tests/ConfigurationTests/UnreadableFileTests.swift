import Testing

@testable import Configuration

/// What is said of a configuration that cannot be read: by whom, and what to do.
@Suite struct UnreadableFileTests {
    private func message(_ failure: SecretReader.Failure, barrier: String? = nil) -> [String] {
        let reader = SecretReader(
            environment: { _ in nil }, readFile: { _, _ in .failure(failure) }, barrier: { _ in barrier },
            userName: { "nobody" })
        let outcome = ConfigurationFile.load(path: "/srv/relay/p.toml", purpose: .check, reader: reader)
        #expect(outcome.configuration == nil)
        return outcome.errors.map(\.message)
    }

    @Test("A file that this user may not read: who, and how it can be read")
    func notPermitted() {
        #expect(
            message(.notPermitted) == [
                "cannot be read: permission denied: the user `nobody` may not read it; run this as root or as the "
                    + "daemon's user, or let everybody read it (chmod a+r) if no secret is in it"
            ])
    }

    @Test("A directory that this user may not enter is named")
    func barrier() {
        #expect(
            message(.notPermitted, barrier: "/srv/relay") == [
                "cannot be read: permission denied: the user `nobody` may not enter `/srv/relay`; run this as a user "
                    + "who may, or move the file"
            ])
    }

    @Test("A file that is not there, or is none, may be another one")
    func another() {
        #expect(message(.notFound) == ["cannot be read: no such file; --config FILE names another"])
        #expect(message(.notARegularFile) == ["cannot be read: not a regular file; --config FILE names another"])
    }

    @Test("The system's own answers: nothing is in the way to what everybody may read, and everybody has a name")
    func system() {
        #expect(SecretReader.system.barrier("/usr/bin/env") == nil)
        #expect(SecretReader.system.barrier("/usr/nowhere/at/all") == nil)
        #expect(!SecretReader.system.userName().isEmpty)
    }
}
