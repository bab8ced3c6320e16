import ArgumentParser
import Ledger

/// The ids by which events can be found: one of these, or none.
struct HandleOptions: ParsableArguments {
    @Option(help: "By store_transaction_id.") var transaction: String?
    @Option(help: "By event id, the vendor's or the relay's (evt_…).") var event: String?
    @Option(help: "By message id (webhook-id, msg_…).") var message: String?
    @Option(help: "By transfer id (trf_…).") var transfer: String?
    @Option(help: "By user id.") var user: String?
    @Option(help: "By anonymous user id.") var anonymous: String?

    private var given: [EventHandle] {
        let all: [(EventHandle.Kind, String?)] = [
            (.transaction, transaction), (.event, event), (.message, message), (.transfer, transfer), (.user, user),
            (.anonymous, anonymous),
        ]
        return all.compactMap { kind, id in id.map { EventHandle(kind, $0) } }
    }

    var handle: EventHandle? { given.first }

    func validate() throws {
        guard given.count < 2 else {
            throw ValidationError(
                "only one of --transaction, --event, --message, --transfer, --user and --anonymous")
        }
    }
}
