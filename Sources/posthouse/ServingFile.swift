import Cluster
import Ledger
import Linux
import Postgres
import Spool
import Vocabulary

/// The file `serving` in the state directory of a unit: what its daemon served last. A start that would begin an empty
/// ledger beside that one, or leave webhooks in that spool, is refused: what comes of a key that was changed or lost
/// looks like success. A spool is kept in mind until it was seen empty: its disk may be away at a start.
struct ServingFile: Sendable {
    private static let bytesMax = 64 << 10

    private let directory: String
    /// The directory that the configuration names.
    private let spool: String
    /// nil: nothing was served here so far, as far as it can be read.
    private let former: LastServed?
    /// Those in which webhooks may wait.
    private let formerSpools: [String]
    private let observe: Observer

    private var path: String { Self.path(in: directory) }
    private static func path(in directory: String) -> String { directory + "/serving" }

    /// Refuses another spool while webhooks wait in one before.
    /// - Parameter spool: the directory that the configuration names.
    /// - Returns: nil: this process has no state directory of a unit, and nothing is compared.
    static func ofUnit(spool: String, _ observe: @escaping Observer) throws -> ServingFile? {
        try ThisProcess.unitStateDirectory.map { try ServingFile(in: $0, spool: spool, observe) }
    }

    private init(in directory: String, spool: String, _ observe: @escaping Observer) throws {
        self.directory = directory
        self.spool = spool
        self.observe = observe
        var former: LastServed?
        do {
            former = try Self.read(in: directory)
        } catch {
            observe(.warning("what this daemon served last is not known, and is written anew: \(error)"))
        }
        self.former = former
        let others = former?.spools(insteadOf: spool) ?? []
        formerSpools = others.filter { !$0.isDone }.map(\.directory)
        // Whoever uses a spool records all of it that no other daemon does.
        let waiting = others.filter { !$0.isNothing && !SpoolFile.isInUse($0.directory) }
        if waiting.isEmpty { return }
        // With webhooks in two spools that were served, one of the two must come first.
        let served = former.map { [$0.spool] + $0.formerSpools } ?? []
        let isFirst =
            served.contains { SecretStore.realPath($0) == SecretStore.realPath(spool) }
            && (try? SpoolFile.all(in: spool))?.files.isEmpty == false
        for other in waiting {
            // What cannot be read could not be recorded there either.
            guard isFirst || other.files.isEmpty else { throw Self.refusal(other) }
            observe(.warning("\(other.remark); what waits there is not recorded until that is the spool again"))
        }
    }

    /// What the daemon of a state directory served last; nil: nothing so far.
    static func read(in directory: String) throws -> LastServed? {
        let path = path(in: directory)
        let bytes: [UInt8]
        do throws(DurableFile.Failure) {
            bytes = try DurableFile.read(path, bytesMax: bytesMax)
        } catch {
            if error.isMissing { return nil }
            throw error
        }
        guard let served = LastServed(text: String(decoding: bytes, as: UTF8.self)) else {
            throw OperatorError("\(path) is damaged")
        }
        return served
    }

    // MARK: The spool

    private static func refusal(_ waiting: FormerSpool) -> OperatorError {
        OperatorError(
            """
            \(waiting.remark), and nobody would record them: let [spool] directory name \(waiting.directory) again, \
            and change it when posthouse spool shows nothing there any more (the daemon records what waits there as \
            soon as the database is back); or, where there is no room, move it with everything that is in it (also the \
            file ledger) as posthouse-operate(7), "Service", says
            """, code: Exit.configuration)
    }

    /// Notes the spool, which is open from here on.
    func recordSpool() { record(former?.ledger) }

    private func record(_ ledger: LastServed.Ledger?) {
        write(LastServed(spool: spool, formerSpools: formerSpools, ledger: ledger))
    }

    // MARK: The ledger

    /// Refuses a private cluster that would have to be made, or that was found without a ledger.
    func refuseToBegin(clusterIn directory: String) throws {
        guard !PrivateCluster.exists(in: directory) || EmptyCluster.isRecorded(in: directory) else { return }
        try refuseToBegin(in: .cluster(in: directory))
    }

    /// Refuses a database without the tables of a ledger. One that `posthouse migrate` has made them in is meant.
    func refuseToBegin(in place: LastServed.Location, by settings: ConnectionSettings) async throws {
        guard former?.ledger != nil, try await !LedgerMark.isThere(settings) else { return }
        try refuseToBegin(in: place)
    }

    private func refuseToBegin(in place: LastServed.Location) throws {
        guard let ledger = former?.ledger, !Self.isEmpty(ledger.place) else { return }
        // An image has no rm.
        let otherwise = if case .database = place { ", or posthouse migrate" } else { "" }
        throw OperatorError(
            """
            there is no ledger in \(place), and this daemon last served one \(ledger): let [database] url or [embedded] \
            directory lead there (is its disk mounted, is every name right?), or restore a backup first; if \
            \(directory) is another daemon's, too, give this unit a StateDirectory= of its own; to begin with an empty \
            ledger, and lose who has access to what, rm \(path)\(otherwise)
            """, code: Exit.configuration)
    }

    /// Whether it is known that no webhook was ever recorded there: then a new beginning loses nothing.
    private static func isEmpty(_ place: LastServed.Location) -> Bool {
        if case .cluster(let directory) = place { EmptyCluster.isRecorded(in: directory) } else { false }
    }

    /// Notes the ledger that is served from here on; the journal says so where it is another one.
    /// - Parameter moved: a private cluster whose ledger this one is.
    func record(_ ledger: LastServed.Ledger, moved: EmbeddedLedger.Moved?) {
        if let before = former?.ledger, before.mark != ledger.mark, !Self.isEmpty(before.place),
            before.place != moved.map({ LastServed.Location.cluster(in: $0.directory) })
        {
            observe(
                .warning(
                    "another ledger is served from here on, \(ledger); the one before was \(before): if that is not "
                        + "meant, let [database] url or [embedded] directory lead there again"))
        }
        record(ledger)
    }

    /// What a new beginning must remove besides, as a shell takes it behind another command; empty: nothing.
    static var removal: String {
        guard let directory = ThisProcess.unitStateDirectory, (try? FileStatus.of(path(in: directory))) != nil
        else { return "" }
        return " && rm \(path(in: directory))"
    }

    private func write(_ served: LastServed) {
        if served == former { return }
        do throws(DurableFile.Failure) {
            try DurableFile.replace(path, with: Array(served.text.utf8))
        } catch {
            // A container without a volume has no place for it, which is no news at each start.
            guard former != nil else { return }
            observe(.warning("what this daemon serves is not noted for its next start: \(error)"))
        }
    }
}
