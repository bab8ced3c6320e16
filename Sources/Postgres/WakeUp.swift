import Linux

extension WakeUp {
    /// For a connection's thread, which polls it beside its socket.
    static func ofConnection() throws(DatabaseError) -> WakeUp {
        do throws(WakeUp.Failure) { return try WakeUp() } catch {
            throw .connectFailed(reason: "no event descriptor for a connection: \(error)")
        }
    }
}
