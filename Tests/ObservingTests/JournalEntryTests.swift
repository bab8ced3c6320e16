import Foundation
import Testing
import Systemd
import Vocabulary

@testable import Observing

@Suite struct JournalEntryTests {
    @Test func anAcceptedAttemptReadsAsALineAndHasEveryField() {
        let entry = JournalEntry(.attempt(.sample()))
        #expect(
            entry.message
                == "delivered SUBSCRIPTION_RECEIVED to backend (200 in 12 ms, attempt 1) transaction 100000099999999")
        #expect(entry.priority == .info)
        #expect(
            entry.fields.map { "\($0.name)=\($0.value)" } == [
                "SOURCE=purchasely", "EVENT=evt_1", "EVENT_NAME=SUBSCRIPTION_RECEIVED", "TRANSACTION=100000099999999",
                "PURCHASE=subs_1", "TRANSFER=tr_1", "MESSAGE=msg_1", "INTEGRATION=backend", "DELIVERY=7", "ATTEMPT=1",
                "OUTCOME=accepted", "HTTP_STATUS=200", "LATENCY_MS=12",
            ])
    }

    @Test func aRetrySaysWhyAndWhen() {
        let next = Timestamp(milliseconds: 1_636_307_015_225)
        let entry = JournalEntry(
            .attempt(
                .sample(
                    outcome: .retry, httpStatus: nil, transaction: nil, attempt: 3, nextAttemptAt: next,
                    failure: "connection refused")))
        #expect(
            entry.message
                == "retry SUBSCRIPTION_RECEIVED to backend (no answer after 12 ms, attempt 3): connection refused;"
                + " next attempt at 2021-11-07T17:43:35.225Z")
        #expect(entry.priority == .warning)
        #expect(entry.fields.last == .init(name: "NEXT_ATTEMPT_AT", value: "2021-11-07T17:43:35.225Z"))
        #expect(!entry.fields.contains { $0.name == "TRANSACTION" || $0.name == "HTTP_STATUS" })
    }

    @Test func deadPausedAndLostAreLouder() {
        #expect(JournalEntry(.attempt(.sample(outcome: .dead, httpStatus: 400))).priority == .error)
        #expect(JournalEntry(.attempt(.sample(outcome: .dead, httpStatus: 400))).message.hasSuffix(": HTTP 400"))
        #expect(JournalEntry(.attempt(.sample(outcome: .paused, httpStatus: 410))).priority == .warning)
        #expect(JournalEntry(.databaseLost(reason: "gone")).priority == .error)
        #expect(JournalEntry(.leaseLost(daemon: 1)).priority == .error)
        #expect(JournalEntry(.quarantined(source: "p", quarantine: 1, reason: "r")).priority == .warning)
        #expect(JournalEntry(.databaseRecovered).priority == .notice)
    }

    /// posthouse-journal(7), "Fields", names them; scripts select by them.
    @Test func fieldNamesAreThoseOfTheContractAndValidForTheJournal() {
        let documented: Set = [
            "SOURCE", "EVENT", "EVENT_NAME", "TRANSACTION", "PURCHASE", "TRANSFER", "MESSAGE", "INTEGRATION",
            "DELIVERY", "ATTEMPT", "OUTCOME", "HTTP_STATUS", "LATENCY_MS", "NEXT_ATTEMPT_AT",
        ]
        let ours: Set = [
            "COUNT", "DUPLICATES", "QUARANTINE", "DAEMON", "LATENCY_P50_MS", "LATENCY_P99_MS", "OPEN_SECONDS",
            "SERVER",
        ]
        let used = Set(everyObservation.flatMap { JournalEntry($0).fields.map(\.name) })
        #expect(used.isSubset(of: documented.union(ours)))
        #expect(used.union(["NEXT_ATTEMPT_AT"]).isSuperset(of: documented))
        #expect(used.allSatisfy { $0.allSatisfy { ("A"..."Z").contains($0) || ("0"..."9").contains($0) || $0 == "_" } })
    }

    @Test func everyOutcomeIsOneOfTheContract() {
        let outcomes = everyObservation.flatMap { JournalEntry($0).fields.filter { $0.name == "OUTCOME" }.map(\.value) }
        #expect(Set(outcomes) == Set(Outcome.allCases.map(\.rawValue)))
    }

    /// Oracle: a hostile id changes neither the number of lines nor the terminal, yet is still found by its field.
    @Test func hostileTextIsHarmlessInTheMessageAndExactInTheField() {
        let hostile = "1\nMESSAGE=forged\u{1B}[2J\u{202E}\u{2028}\u{85}\u{0}\r\té"
        let entry = JournalEntry(.attempt(.sample(transaction: hostile)))
        #expect(
            entry.message.hasSuffix(
                #" transaction 1\nMESSAGE=forged\u{1b}[2J\u{202e}\u{2028}\u{85}\u{0}\r\té"#))
        #expect(entry.fields.first { $0.name == "TRANSACTION" }?.value == hostile)
        let line = entry.logfmt(at: Timestamp(milliseconds: 0))
        #expect(line.unicodeScalars.filter { $0.properties.generalCategory == .control } == ["\n"])
    }

    @Test func everyMessageIsOneLineAndEveryCountReadsRight() {
        for observation in everyObservation {
            let message = JournalEntry(observation).message
            #expect(!message.isEmpty && !message.contains("\n"))
        }
        #expect(JournalEntry(.leasesReclaimed(daemon: 4, count: 1)).message.contains("1 delivery of daemon 4"))
        #expect(JournalEntry(.leasesReclaimed(daemon: 4, count: 0)).message.contains("its deliveries go on here"))
        #expect(JournalEntry(.journalDropped(count: 2)).message.hasPrefix("2 entries lost"))
        #expect(JournalEntry(.eventRecorded(.sample(), duplicate: false)).message.contains("(1 message, 2 deliveries)"))
    }

    @Test func logfmtQuotesOnlyWhatNeedsIt() {
        let entry = JournalEntry(.refused(source: "a \"b\"\\=", status: 401, reason: "wrong signature"))
        #expect(
            entry.logfmt(at: Timestamp(milliseconds: 1_636_307_015_225))
                == #"time=2021-11-07T17:43:35.225Z level=warning msg="refused a request to a \"b\"\\= with 401:"#
                + #" wrong signature" source="a \"b\"\\=" outcome=refused http_status=401"# + "\n")
        #expect(PlainText.logfmtValue("") == "\"\"")
        #expect(PlainText.logfmtValue("a1_-:.") == "a1_-:.")
    }

    @Test func anInstantThatHasNoYearIsStillWritten() {
        let entry = JournalEntry(.attempt(.sample(outcome: .retry, nextAttemptAt: Timestamp(milliseconds: .max))))
        #expect(entry.fields.last?.value == "\(Int64.max)ms")
    }

    @Test func theRecordHasWhatJournaldNeeds() {
        let text = String(decoding: JournalEntry(.databaseRecovered).record.bytes, as: UTF8.self)
        #expect(
            text == "MESSAGE=database is backPRIORITY=5MESSAGE_ID=\(JournalEntryKind.databaseRecovered.messageID)"
                + "SYSLOG_IDENTIFIER=posthouse")
    }
}
