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

    @Test("Daemons that have the same are fine, also with no section at all; the line says what was compared")
    func alike() {
        let sections = ["integration crm": "a", "source shop": "b"]
        #expect(
            Self.found(sections, sections, sections) == [
                DoctorFinding(
                    .configuration, .fine, "3 daemons have the same integrations, sources and subscription groups")
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
            Self.remedy + ", then posthouse backfill crm --since the time when the first of them was changed; it sends "
            + "what was not sent, and nothing again that was sent to another address or in another format"
        let differs = DoctorFinding(
            .configuration, .wrong,
            "3 of 4 daemons have the integration crm, configured in 2 ways: what is sent there depends on which of "
                + "them records or sends it", do: backfill)
        let found = Self.found(
            ["integration crm": "a"], ["integration crm": "b"], ["integration crm": "a"], [:])
        #expect(found.count == 2 && found.last == differs)
        #expect(found.first?.text.hasPrefix("1 of 4 daemons has no integration crm") == true)
    }

    @Test("A source that daemons have in several ways is wrong, and so is one that some do not have: their API errs")
    func sources() {
        let both = ["source play": "b", "source shop": "a"]
        let one = ["source shop": "a"]
        #expect(
            Self.found(both, one) == [
                DoctorFinding(
                    .configuration, .wrong,
                    "1 of 2 daemons has no source play: it answers its webhooks 404, and its API ends no access of it "
                        + "by the clock", do: Self.remedy)
            ])
        #expect(
            Self.found(one, both, one).map(\.text) == [
                "2 of 3 daemons have no source play: they answer its webhooks 404, and their API ends no access of it "
                    + "by the clock"
            ])
        let differing = Self.found(["source shop": "a"], ["source shop": "b"], [:])
        #expect(differing.map(\.state) == [.wrong, .wrong])
        #expect(
            differing.last
                == DoctorFinding(
                    .configuration, .wrong,
                    "2 of 3 daemons have the source shop, configured in 2 ways: what is recorded depends on which of "
                        + "them takes it in", do: Self.remedy))
    }

    @Test("A subscription group that daemons have in several ways, or that one lacks, is wrong")
    func subscriptionGroups() {
        let name = "subscription group premium"
        let found = Self.found([name: "a"], [name: "b"], [:])
        #expect(found.map(\.state) == [.wrong, .wrong] && found.allSatisfy { $0.advice == Self.remedy })
        #expect(
            found.map(\.text) == [
                "1 of 3 daemons has no subscription group premium: its API does not know which products are in it",
                "2 of 3 daemons have the subscription group premium, configured in 2 ways: what the API says of it "
                    + "depends on which of them answers",
            ])
    }

    /// During an upgrade: it may digest a section otherwise, but it has it or not all the same.
    @Test("Digests are compared among daemons of one version, which is said; what is lacking is found all the same")
    func versions() {
        func found(_ old: [String: String]) -> [DoctorFinding] {
            DaemonConfigurationFindings.of([
                DaemonConfiguration(version: "1", digests: old),
                DaemonConfiguration(version: "2", digests: ["integration crm": "b"]),
            ])
        }
        for digest in ["a", "b"] {
            let alike = found(["integration crm": digest])
            #expect(alike.map(\.state) == [.note] && alike[0].text.contains("of the same names"), "\(alike)")
        }
        #expect(found([:]).map(\.state) == [.wrong])
        let three = [("1", "a"), ("1", "b"), ("2", "c")].map {
            DaemonConfiguration(version: $0, digests: ["integration crm": $1])
        }
        let differing = DaemonConfigurationFindings.of(three)
        #expect(differing.map(\.state) == [.wrong] && differing[0].text.contains("2 ways"), "\(differing)")
    }
}
