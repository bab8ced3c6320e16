import Glibc

/// Connections that could not be accepted for want of file descriptors.
package struct AcceptFailure: Hashable, Sendable {
    package enum Scope: Hashable, Sendable {
        /// EMFILE: this process has as many as it may.
        case process
        /// ENFILE: the machine has.
        case machine

        init?(_ code: CInt) {
            switch code {
            case EMFILE: self = .process
            case ENFILE: self = .machine
            default: return nil
            }
        }
    }

    package let scope: Scope
    /// Accepts that failed since the last report, this one included.
    package let count: Int
}
