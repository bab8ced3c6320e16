internal import Vocabulary

/// The holder of an event of `Sessions`, and what it states about holders as such.
struct SessionsStatement {
    let holder: Holder
    let change: HolderChange?
    let links: [HolderLink]

    init(name: String, fields: SessionsFields, merges: Bool) throws(Unreadable) {
        let user = try fields.id("user_id")
        let anonymous = try fields.id("anonymous_user_id", "anonymous_id")
        switch name {
        case SessionsNames.login:
            guard let user else { throw Unreadable(reason: "a login needs user_id") }
            // Without an anonymous holder nothing ends then.
            let until = try anonymous == nil ? nil : fields.end("expires_at")
            self.init(login: user, of: anonymous, until: until, merges: merges)
        case SessionsNames.logout, SessionsNames.expired, SessionsNames.dataReset:
            self.init(
                about: try Self.holder(user.map { .user($0) } ?? anonymous.map { .anonymous($0) }),
                change: anonymous == nil ? user.map { .endSessions(user: $0) } : nil,
                links: anonymous.map { [HolderLink(anonymousID: $0, userID: nil)] } ?? [])
        case SessionsNames.anonymousStarted:
            self.init(about: try Self.holder(anonymous.map { .anonymous($0) } ?? user.map { .user($0) }))
        default:
            if user != nil, anonymous != nil {
                throw Unreadable(
                    reason: "both user_id and an anonymous id are there, though this is not a session event")
            }
            self.init(about: try Self.holder(user.map { .user($0) } ?? anonymous.map { .anonymous($0) }))
        }
    }

    private init(about holder: Holder, change: HolderChange? = nil, links: [HolderLink] = []) {
        self.holder = holder
        self.change = change
        self.links = links
    }

    private init(login user: String, of anonymous: String?, until: Timestamp?, merges: Bool) {
        holder = .user(user)
        guard let anonymous else {
            change = nil
            links = []
            return
        }
        change = merges ? .move(from: [.anonymous(anonymous)], to: .user(user), isNative: false) : nil
        links = [HolderLink(anonymousID: anonymous, userID: user, until: until)]
    }

    private static func holder(_ named: Holder?) throws(Unreadable) -> Holder {
        guard let named else { throw Unreadable(reason: "neither user_id nor an anonymous id is there") }
        return named
    }
}

extension SessionsFields {
    /// The other side of a transfer; nil if both ids are there, because choosing one would guess who gets access.
    func counterpart(_ prefix: String) throws(Unreadable) -> Holder? {
        let anonymous = try text(prefix + "anonymous_user_id", prefix + "anonymous_id")
        switch (try text(prefix + "user_id"), anonymous) {
        case (let user?, nil): return .user(user)
        case (nil, let anonymous?): return .anonymous(anonymous)
        default: return nil
        }
    }
}
