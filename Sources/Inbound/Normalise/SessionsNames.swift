/// The events of `Sessions` that are about sessions. Every other name is about a purchase, or about nothing that
/// Posthouse knows.
enum SessionsNames {
    static let anonymousStarted = "SESSION_ANONYMOUS_STARTED"
    static let login = "SESSION_LOGIN"
    static let logout = "SESSION_LOGOUT"
    static let expired = "SESSION_EXPIRED"
    static let dataReset = "DATA_RESET"

    static let sessions = [anonymousStarted, login, logout, expired, dataReset]
    static let all = sessions + [PurchaselyNames.activate, PurchaselyNames.deactivate]

    /// The store of purchases that name none.
    static let store = "APP"
}
