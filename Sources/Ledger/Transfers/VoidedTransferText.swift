import Vocabulary

extension VoidedTransfer {
    /// The explanation for a person: why an announced transfer is void.
    var explanation: String {
        let amount = count == 1 ? "one announced transfer is" : "\(count) announced transfers are"
        return switch reason {
        case .thirdHolder(let third): "\(amount) void: a late webhook shows that \(third.storageKey) held it in between"
        case .revoked: "\(amount) void: a late webhook shows that the old holder's purchase had been revoked before"
        case .rearranged: "\(amount) void: a late webhook shows another course between these two holders"
        }
    }
}
