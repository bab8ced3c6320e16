/// The events of `Sessions` that are about sessions. Every other name is about a purchase, or about nothing that the
/// relay knows.
enum SessionsNames {
    static let anonymousStarted = "SESSION_ANONYMOUS_STARTED"
    static let login = "SESSION_LOGIN"
    static let logout = "SESSION_LOGOUT"
    static let expired = "SESSION_EXPIRED"
    static let dataReset = "DATA_RESET"

    static let sessions = [anonymousStarted, login, logout, expired, dataReset]
    static let all = sessions + [PurchaselyNames.activate, PurchaselyNames.deactivate]

    /// What such a source uses as its store where it names none.
    static let store = "APP"
}
