import HTTPClient

/// What the end of an attempt says about the health of the endpoint, apart from the message: the evidence for the
/// breaker.
enum EndpointHealth: Sendable, Equatable {
    /// It answered, even if it refused this one message (3xx, 4xx).
    case alive
    /// It cannot be reached, gives no valid answer in time, reports that it cannot work (5xx) or is overloaded (429).
    case failing(String)
    /// No evidence: this daemon gave the attempt up or could not make it.
    case none
    /// The same, and another attempt cannot be made now either: this machine lacks what each needs.
    case starved

    init(_ result: Result<EndpointAnswer, RequestFailure>) {
        switch result {
        case .success(let answer) where answer.status >= 500 || answer.status == 429:
            self = .failing("answered \(answer.status)")
        case .success: self = .alive
        case .failure(.cancelled), .failure(.unsendable), .failure(.refusedAddress): self = .none
        case .failure(.shortage): self = .starved
        case .failure(let failure): self = .failing(failure.explanation)
        }
    }
}
