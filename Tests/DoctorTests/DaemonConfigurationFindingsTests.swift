import Testing

@testable import Doctor
@testable import Ledger

/// Oracle: what the daemons of the test have.
@Suite("Daemons that are configured differently")
struct DaemonConfigurationFindingsTests {
    /// Of one daemon for each argument.
    private static func found(_ daemons: [String: String]...) -> [DoctorFinding] {
        DaemonConfigurationFindings.of(daemons.map { DaemonConfiguration(version: "1", digests: $0) })
    }

    private static let remedy = "make posthouse.toml alike on all hosts and reload each daemon"

    @Test("One daemon, or none that says how it is configured, is compared with nobody")
    func alone() {
        #expect(Self.found() == [])
        #expect(Self.found(["integration crm": "a"]) == [])
    }

    @Test("Daemons that have the same are fine, also with no section at all")
    func alike() {
        let sections = ["integration crm": "a", "source shop": "b"]
        #expect(
            Self.found(sections, sections, sections) == [
                DoctorFinding(.configuration, .fine, "3 daemons are configured alike")
            ])
        #expect(Self.found([:], [:]).map(\.state) == [.fine])
    }

    @Test("An integration that a daemon lacks is wrong: which, how many lack it, and what sends what was missed")
    func lacking() {
        let backfill =
            Self.remedy + ", then posthouse backfill crm --since the time when the first of them had it"
        let both = ["integration backend": "a", "integration crm": "b"]
        let one = ["integration backend": "a"]
        #expect(
            Self.found(both, one) == [
                DoctorFinding(
                    .configuration, .wrong,
                    "1 of 2 daemons has no integration crm: what it records is not sent there", do: backfill)
            ])
        #expect(
            Self.found(one, both, one) == [
                DoctorFinding(
                    .configuration, .wrong,
                    "2 of 3 daemons have no integration crm: what they record is not sent there", do: backfill)
            ])
        // One that has none at all, too.
        #expect(Self.found(one, [:]).map(\.state) == [.wrong])
    }

    @Test("An integration that daemons have in several ways is wrong, beside one that lacks it")
    func differing() {
        let backfill =
            Self.remedy + ", then posthouse backfill crm --since the time when the first of them was changed"
        let differs = DoctorFinding(
            .configuration, .wrong,
            "3 of 4 daemons have the integration crm, configured in 2 ways: what is sent there depends on which of them "
                + "records it", do: backfill)
        let found = Self.found(
            ["integration crm": "a"], ["integration crm": "b"], ["integration crm": "a"], [:])
        #expect(found.count == 2 && found.last == differs)
        #expect(found.first?.text.hasPrefix("1 of 4 daemons has no integration crm") == true)
    }

    @Test("A source that daemons have in several ways is wrong; one that some do not have is no fault")
    func sources() {
        #expect(Self.found(["source shop": "a", "source play": "b"], ["source shop": "a"]).map(\.state) == [.fine])
        #expect(
            Self.found(["source shop": "a"], ["source shop": "b"], [:]) == [
                DoctorFinding(
                    .configuration, .wrong,
                    "2 of 3 daemons have the source shop, configured in 2 ways: what is recorded depends on which of "
                        + "them takes it in", do: Self.remedy)
            ])
    }

    /// During an upgrade: it may digest a section otherwise, but it has it or not all the same.
    @Test("Digests of two versions are not compared; what is lacking is found all the same")
    func versions() {
        func found(_ old: [String: String]) -> [DoctorFinding.State] {
            DaemonConfigurationFindings.of([
                DaemonConfiguration(version: "1", digests: old),
                DaemonConfiguration(version: "2", digests: ["integration crm": "b"]),
            ]).map(\.state)
        }
        #expect(found(["integration crm": "a"]) == [.fine])
        #expect(found([:]) == [.wrong])
    }

    @Test("Of many differences some are listed, and how many more there are")
    func many() {
        let digests = Dictionary(uniqueKeysWithValues: (10...20).map { ("integration crm\($0)", "a") })
        let found = Self.found(digests, [:])
        #expect(found.count == 9 && found.allSatisfy { $0.state == .wrong && $0.advice != nil })
        #expect(found.first?.text.contains("crm10") == true)
        #expect(found.last?.text == "the daemons differ in 3 more places")
        let eight = Self.found(digests.filter { $0.key < "integration crm18" }, [:])
        #expect(eight.count == 8 && !eight.contains { $0.text.contains("more place") })
    }
}
