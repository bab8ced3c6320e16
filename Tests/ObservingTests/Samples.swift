@testable import Observing
import Vocabulary

extension AttemptTrail {
    static func sample(
        integration: String = "backend", outcome: Outcome = .accepted, httpStatus: Int? = 200, latency: Int = 12,
        transaction: String? = "100000099999999", purchase: String? = "subs_1", transfer: String? = "tr_1",
        attempt: Int = 1, nextAttemptAt: Timestamp? = nil, failure: String? = nil
    ) -> AttemptTrail {
        AttemptTrail(
            integration: integration, delivery: 7,
            message: MessageTrail(
                id: "msg_1", eventID: "evt_1", type: "SUBSCRIPTION_RECEIVED", source: "purchasely",
                transaction: transaction, purchaseKey: purchase, transferID: transfer),
            attempt: attempt, outcome: outcome, httpStatus: httpStatus, latencyMilliseconds: latency,
            nextAttemptAt: nextAttemptAt, failure: failure)
    }
}

extension EventTrail {
    static func sample(source: String = "purchasely", event: String = "evt_1", messages: Int = 1) -> EventTrail {
        EventTrail(
            source: source, event: event, name: "ACTIVATE", transaction: "100000099999999", purchase: "subs_1",
            messages: messages, deliveries: 2)
    }
}

extension TransferTrail {
    static let sample = TransferTrail(
        source: "purchasely", transfer: "tr_1", purchase: "subs_1", transaction: "100000099999999", event: "evt_1",
        from: .anonymous("a1"), to: .user("u1"))
}

/// Those of them that can have less, with nothing that they can do without.
let bareObservations: [Observation] = {
    var event = EventTrail.sample()
    (event.transaction, event.purchase) = (nil, nil)
    var transfer = TransferTrail.sample
    (transfer.transfer, transfer.transaction) = (nil, nil)
    func attempt(_ outcome: Outcome, _ httpStatus: Int?) -> Observation {
        .attempt(.sample(outcome: outcome, httpStatus: httpStatus, transaction: nil, purchase: nil, transfer: nil))
    }
    return [
        attempt(.retry, nil), attempt(.dead, nil), attempt(.accepted, 200), attempt(.paused, 410),
        .eventRecorded(event, duplicate: false), .eventRecorded(event, duplicate: true), .duplicateDiffers(event),
        .transferVoided(transfer, explanation: "user u0 held it between"),
        .refused(source: "", status: 404, reason: "no such source"), .refusals(source: "", status: 404, count: 9),
    ]
}()

/// One observation of every kind.
let everyObservation: [Observation] = [
    .eventRecorded(.sample(), duplicate: false), .eventRecorded(.sample(), duplicate: true),
    .eventsRecorded(source: "purchasely", count: 12, duplicates: 2), .duplicateDiffers(.sample()),
    .quarantined(source: "purchasely", quarantine: 3, reason: "no event name"),
    .refused(source: "purchasely", status: 401, reason: "wrong signature"),
    .unverified(source: "play", reason: "its key is not known"),
    .refusals(source: "purchasely", status: 401, count: 9),
    .acceptFailed(listen: "127.0.0.1:8080", isMachine: false, count: 2),
    .transferResolved(.sample), .transferVoided(.sample, explanation: "user u0 held it between"),
    .attempt(.sample()), .attempt(.sample(outcome: .retry, httpStatus: 500)),
    .attempt(.sample(outcome: .dead, httpStatus: 500)), .attempt(.sample(outcome: .paused, httpStatus: 410)),
    .successes(integration: "backend", count: 5, p50Milliseconds: 3, p99Milliseconds: 9),
    .integrationPaused(integration: "backend", reason: "410 Gone"), .integrationResumed(integration: "backend"),
    .storeLost(source: "play", what: .api, reason: "https://a.example.com/… answered 403"),
    .storeRecovered(source: "play", what: .keys),
    .breakerOpened(integration: "backend", reason: "10 of the last 10 attempts failed"),
    .breakerClosed(integration: "backend", openSeconds: 42),
    .leasesReclaimed(daemon: 4, count: 2), .leaseLost(daemon: 4), .databaseLost(reason: "connection refused"),
    .databaseRecovered, .recordingRefused(reason: "no space left"), .recordingRecovered,
    .spoolingBegan(reason: "the database is out of reach"), .spoolEmptied(count: 3),
    .spoolRefused(reason: "the spool is full"), .spoolDamaged(file: "/s/damaged/a", reason: "its checksum is wrong"),
    .spoolAdopted(folder: "0123456789abcdef", count: 2),
    .clusterStarted(directory: "/var/lib/posthouse", takenOver: false), .clusterStopped,
    .migrated(from: 1, to: 2), .ready(listen: "127.0.0.1:8080"),
    .startFailed(reason: "the database has fsync = off"),
    .reloaded(changes: "integrations added: crm"), .reloadRefused(reason: "posthouse.toml:3:1: error: unknown key"),
    .hangs(what: "an event loop has not answered for 5 seconds"), .stopping(reason: "SIGTERM"),
    .stopped(inFlight: 0), .warning("take care"), .journalDropped(count: 2),
]
