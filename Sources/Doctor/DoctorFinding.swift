/// One line of `posthouse doctor`. Nothing in it is secret.
package struct DoctorFinding: Sendable, Hashable {
    /// What a line is about, in the order of the page.
    package enum Area: String, Sendable, CaseIterable {
        case configuration, unit, credentials, files, socket, disk, spool, database, clock, privileges, settings,
            deliveries
        case tables, certificates, versions
    }

    package enum State: String, Sendable, CaseIterable {
        case fine
        /// Worth knowing; nothing fails because of it now.
        case note
        /// Something fails because of it, or soon will.
        case wrong
        /// It could not be found out; the text says why.
        case unknown
    }

    package let area: Area
    package let state: State
    package let text: String
    /// What to do about it; nil: nothing.
    package let advice: String?

    package init(_ area: Area, _ state: State, _ text: String, do advice: String? = nil) {
        self.area = area
        self.state = state
        self.text = text
        self.advice = advice
    }
}
