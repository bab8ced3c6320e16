package import Vocabulary

/// Where a listener accepts connections.
package enum Listen: Hashable, Sendable {
    case address(ListenAddress)
    /// A socket that is bound and listening, passed by number. The server owns and closes it.
    case inherited(fileDescriptor: CInt)

    package var text: String {
        switch self {
        case .address(let address): address.text
        case .inherited(let descriptor): "inherited socket \(descriptor)"
        }
    }
}
