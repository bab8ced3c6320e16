import HTTPClient
import Inbound
import NIOCore
import NIOPosix
import Vocabulary

/// The event loops, and what goes out on them for sources: all that serving webhooks needs of the network.
struct NetworkClients: Sendable {
    let group: MultiThreadedEventLoopGroup
    let names: NameResolver
    let outgoing: OutgoingClients
    /// What sources need of their stores' servers.
    let stores: StoreClients

    init(_ observe: @escaping Observer) {
        group = MultiThreadedEventLoopGroup(numberOfThreads: System.coreCount)
        names = NameResolver()
        outgoing = OutgoingClients(on: group.next(), resolver: names.resolver)
        stores = StoreClients(sendingBy: outgoing, observe: observe)
    }

    /// Ends all of it, for a start that fails.
    func close() async {
        stores.stop()
        outgoing.close()
        names.close()
        try? await group.shutdownGracefully()
    }
}
