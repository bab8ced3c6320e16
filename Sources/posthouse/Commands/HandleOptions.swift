import ArgumentParser
import Ledger
import Postgres

/// The ids by which events can be found: one of these, or none.
struct HandleOptions: ParsableArguments {
    @Option(help: "By store_transaction_id.") var transaction: String?
    @Option(help: "By event id, the platform's or Posthouse's own (evt_…).") var event: String?
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

    /// Runs a look-up by a handle. One that no index leads to may take longer than a statement may.
    static func inTime<Value>(_ handle: EventHandle?, _ body: () async throws -> Value) async throws -> Value {
        guard let handle else { return try await body() }
        do {
            return try await body()
        } catch let error as DatabaseError where error.isStatementTimeout {
            throw OperatorError(
                """
                \(handle.id) was not found within [database] statement_timeout: where nothing else is known by \
                that id, all webhooks are read for a platform's event id. Say what it is by an option \
                (--transaction, --user …), or list webhooks: posthouse events --since TIME
                """)
        }
    }

    func validate() throws {
        guard given.count < 2 else {
            throw ValidationError(
                "only one of --transaction, --event, --message, --transfer, --user and --anonymous")
        }
    }
}
