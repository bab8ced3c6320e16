/// What the end of an attempt says about the receiver as a whole, whatever it says about the message: the evidence of
/// the breaker.
enum ReceiverSign: Sendable, Equatable {
    /// It answered, be it that it refuses this one message (3xx, 4xx).
    case alive
    /// It cannot be reached, does not answer in time, says that it cannot work (5xx) or has too much to do (429).
    case failing(String)
    /// Nobody asked it: this daemon gave the attempt up or could not make it.
    case none

    init(_ result: Result<EndpointAnswer, DeliveryFailure>) {
        switch result {
        case .success(let answer) where answer.status >= 500 || answer.status == 429:
            self = .failing("answered \(answer.status)")
        case .success: self = .alive
        case .failure(.cancelled), .failure(.unsendable), .failure(.refusedAddress): self = .none
        case .failure(let failure): self = .failing(failure.explanation)
        }
    }
}
