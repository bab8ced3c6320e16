internal import Vocabulary

/// The kinds of journal entry, each with its own MESSAGE_ID: what `journalctl MESSAGE_ID=…` selects and what
/// deploy/posthouse.catalog explains under `journalctl -x`. The ids are random (sd-id128(3)) and a contract: an id is
/// never changed and never used for another kind.
package enum JournalEntryKind: String, CaseIterable, Sendable {
    case eventRecorded = "cf79f84822be429e8c1d453755142609"
    case eventDuplicate = "3d56306afd7642779897abe4939b6cce"
    case eventsRecorded = "d9b6fb7b343746b6b6a3f72a4150af6b"
    case duplicateDiffers = "948d34b12f3b4986ba43d441dc9830fb"
    case quarantined = "7f88ddccea604b918dd634e0fe5f5c5b"
    case requestRefused = "a417266a22c24c4da23dc3be421f276c"
    case requestUnverified = "4e49f32d796e457a9e8e5548252aab82"
    case requestsRefused = "24857875324d4f97b9b6b96a05e483f4"
    case acceptFailed = "5ab9f33741c4435da627e4f3429043e0"
    case storeLost = "8f6b706cee964e7da25f263949ee7147"
    case storeRecovered = "c6df933e128e470c81c10d3663c1dce1"
    case transferResolved = "32f95723ccaa419ab9ac8b8a861f6584"
    case transferVoided = "e239642e155b488f842d4d6a1b69d881"
    case deliveryAccepted = "634a3cfaea5c4d90a47c23a828abe58e"
    case deliveriesAccepted = "1af90bdb1c834fd39326e6fa078c59c1"
    case deliveryRetry = "ccc708c3b12940b38c58ce7ea1e69e22"
    case deliveryDead = "6ce30c554a8f4c1a8a5d016971441382"
    case deliveryPaused = "060fa41be1024df18608f2c81f45b40d"
    case integrationPaused = "0983c26124534d059652443a149ba96d"
    case integrationResumed = "6785adbd655d488f94205083f9e438ff"
    case breakerOpened = "10c1721c1258440d9cd765f7e7147c5e"
    case breakerClosed = "5e2b860724d8443e96ce987f8379dc25"
    case leasesReclaimed = "0adc8a361d3f4e0cafb27e811c55e609"
    case leaseLost = "fbd5cba5dea94d7ca87500bb977f5ee5"
    case databaseLost = "b6e2cce679164b97b6f1ee46bf93ae73"
    case databaseRecovered = "5fd18b903eed43378f7cea0f65b6491a"
    case recordingRefused = "faab331ed1df45f2b6527be1474f21bb"
    case recordingRecovered = "5cb3f7616e894633b412f53c4e127cc9"
    case spoolingBegan = "4f12cf170f3b44bd911256c00bc548c9"
    case spoolEmptied = "6a479696fb2f4664a7700bff840d2b21"
    case spoolRefused = "5b4252b3d42b4a91a149223908875096"
    case spoolDamaged = "27f6ec6c1be643d0876010fcfcae4e2f"
    case spoolAdopted = "98682a1488894008931b8e193c1aabef"
    case clusterStarted = "bc2c494a989c4333b3a0d330e117936b"
    case clusterStopped = "d656a91eb063432495fd528a7de3abc7"
    case migrated = "9189643281f3440ea157f47201330634"
    case ready = "bc627ddd0f534966a8a2eda532743dc0"
    case startFailed = "a707e30ee0b4463799ff26f51f281d30"
    case reloaded = "092a180572ec4a11b48d40f442118e65"
    case reloadRefused = "7f22467d548849bc9862a555aac869eb"
    case hangs = "539b6e0873d54de5ad0014be64719b5e"
    case stopping = "556ecc0e763e4ff98e189a07ac653d1e"
    case stopped = "ab35f49724664810a9569038b62d38bf"
    case warning = "7da53482d3144b5e99609699402a1650"
    case journalDropped = "76061f8bf85b41de841fd931fa25daf0"

    /// 32 lower-case hex digits.
    package var messageID: String { rawValue }
}

extension JournalEntryKind {
    /// The kind of an observation. Attempts have one for each way they can end.
    init(_ observation: Observation) {
        switch observation {
        case .eventRecorded(_, let duplicate): self = duplicate ? .eventDuplicate : .eventRecorded
        case .eventsRecorded: self = .eventsRecorded
        case .duplicateDiffers: self = .duplicateDiffers
        case .quarantined: self = .quarantined
        case .refused: self = .requestRefused
        case .unverified: self = .requestUnverified
        case .refusals: self = .requestsRefused
        case .acceptFailed: self = .acceptFailed
        case .storeLost: self = .storeLost
        case .storeRecovered: self = .storeRecovered
        case .transferResolved: self = .transferResolved
        case .transferVoided: self = .transferVoided
        case .attempt(let trail): self.init(attempt: trail.outcome)
        case .successes: self = .deliveriesAccepted
        case .integrationPaused: self = .integrationPaused
        case .integrationResumed: self = .integrationResumed
        case .breakerOpened: self = .breakerOpened
        case .breakerClosed: self = .breakerClosed
        case .leasesReclaimed: self = .leasesReclaimed
        case .leaseLost: self = .leaseLost
        case .databaseLost: self = .databaseLost
        case .databaseRecovered: self = .databaseRecovered
        case .recordingRefused: self = .recordingRefused
        case .recordingRecovered: self = .recordingRecovered
        case .spoolingBegan: self = .spoolingBegan
        case .spoolEmptied: self = .spoolEmptied
        case .spoolRefused: self = .spoolRefused
        case .spoolDamaged: self = .spoolDamaged
        case .spoolAdopted: self = .spoolAdopted
        case .clusterStarted: self = .clusterStarted
        case .clusterStopped: self = .clusterStopped
        case .migrated: self = .migrated
        case .ready: self = .ready
        case .startFailed: self = .startFailed
        case .reloaded: self = .reloaded
        case .reloadRefused: self = .reloadRefused
        case .hangs: self = .hangs
        case .stopping: self = .stopping
        case .stopped: self = .stopped
        case .warning: self = .warning
        case .journalDropped: self = .journalDropped
        }
    }

    private init(attempt outcome: Outcome) {
        switch outcome {
        case .accepted: self = .deliveryAccepted
        case .dead: self = .deliveryDead
        case .paused: self = .deliveryPaused
        // The last three are outcomes of events: an attempt that claimed one has at least not been accepted.
        case .retry, .duplicate, .quarantined, .refused: self = .deliveryRetry
        }
    }
}
