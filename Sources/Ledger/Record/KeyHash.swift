import Crypto
package import Vocabulary

/// The keys and ids that Posthouse computes: SHA-256 over named parts, cut to 16 bytes, or to 12 behind a time. Each
/// part is preceded by its length, so that no two lists of parts give the same bytes.
package enum KeyHash {
    /// The event key (Domain.md, "Event key"): the event's hash, behind its time if every webhook of the event has that
    /// time.
    /// - Parameter hash: `eventHash` of the event.
    static func eventKey(_ event: Event, hash: Identifier) -> Identifier {
        event.vendorEventID == nil || event.isTimeRepeated ? hash.behind(event.occurredAt) : hash
    }

    /// What the event key is made of, and what versions before used as the key.
    ///
    /// The platform's event id if there is one; otherwise everything that distinguishes the events of one transaction:
    /// a transfer's DEACTIVATE and ACTIVATE share transaction and time, and two purchases may share a transaction id.
    package static func eventHash(_ event: Event) -> Identifier {
        if let id = event.vendorEventID {
            return eventHash(vendorEventID: id, in: event.isIDOfSource ? event.scope.ofSourceAlone : event.scope)
        }
        var digest = Digest("event", scope: event.scope)
        digest.add("parts")
        digest.add(event.purchase?.store ?? "")
        digest.add(event.purchase?.key ?? "")
        digest.add(event.transaction?.storeTransactionID ?? "")
        digest.add(event.name)
        digest.add(event.holder?.storageKey ?? "")
        digest.add(String(event.occurredAt.milliseconds))
        return digest.finish()
    }

    /// The event's hash if the platform sends an event id: over that id and its scope only.
    static func eventHash(vendorEventID: String, in scope: Scope) -> Identifier {
        var digest = Digest("event", scope: scope)
        digest.add("id")
        digest.add(vendorEventID)
        return digest.finish()
    }

    /// The purchase's hash, over (source, app, environment, store, purchase key). Its id is another
    /// (`EventBatch.assignIDs`).
    package static func purchase(_ purchase: Purchase, in scope: Scope) -> Identifier {
        var digest = Digest("purchase", scope: scope)
        digest.add(purchase.store)
        digest.add(purchase.key)
        return digest.finish()
    }

    /// The transfer id, over (the purchase's hash, from, to, ordinal), never over a time.
    package static func transfer(purchase: Identifier, from: Holder, to: Holder, ordinal: Int) -> Identifier {
        var digest = Digest("transfer")
        digest.add(purchase.hex)
        digest.add(from.storageKey)
        digest.add(to.storageKey)
        digest.add(String(ordinal))
        return digest.finish()
    }

    /// The id of a daemon, over what its successor on the same machine and state directory can read.
    package static func daemon(machine: [UInt8], device: UInt64, inode: UInt64, token: String) -> Identifier {
        var digest = Digest("daemon")
        digest.add(Identifier(bytes: machine).hex)
        digest.add(String(device))
        digest.add(String(inode))
        digest.add(token)
        return digest.finish()
    }

    /// The key of a message that passes on the event with this hash, where it is not the event's
    /// (`BatchWrite.ownKey`).
    package static func message(passingOn event: Identifier) -> Identifier {
        var digest = Digest("message")
        digest.add(event.hex)
        return digest.finish()
    }

    /// The id of one of the two messages of a transfer: the same whether a native webhook or Posthouse states it.
    package static func message(ofTransfer transfer: Identifier, type: String) -> Identifier {
        var digest = Digest("transfer message")
        digest.add(transfer.hex)
        digest.add(type)
        return digest.finish()
    }

    /// Half of the key of a source's advisory lock. Two sources with the same key only wait for each other.
    static func lock(ofSource source: String) -> Int32 {
        var digest = Digest("lock")
        digest.add(source)
        return Int32(truncatingIfNeeded: digest.finish().high)
    }

    /// Half of the key of the advisory lock of what a holder has. Two with the same key only wait for each other.
    static func lock(ofAccess subject: MessageAccess.Subject) -> Int32 {
        var digest = Digest("access lock")
        digest.add(subject.source)
        digest.add(subject.environment)
        digest.add(subject.holder.storageKey)
        return Int32(truncatingIfNeeded: digest.finish().high)
    }

    /// What the lapse of a purchase's access at one end is named by.
    /// - Parameters:
    ///   - purchase: its hash.
    ///   - until: milliseconds since 1970.
    static func lapse(purchase: Identifier, until: Int64) -> Identifier {
        var digest = Digest("lapse")
        digest.add(purchase.hex)
        digest.add(String(until))
        return digest.finish()
    }

    /// The digest of a body's bytes.
    package static func body(_ bytes: [UInt8]) -> Identifier {
        SHA256.hash(data: bytes).withUnsafeBytes { Identifier(rawBytes: $0) }
    }
}

/// The written forms of ids outside the database: at most 36 characters (Standard Webhooks asks for a short id).
extension Identifier {
    package var messageID: String { hex(behind: "msg_") }
    package var transferID: String { hex(behind: "trf_") }
    package var eventID: String { hex(behind: "evt_") }

    /// Reads any of the three written forms, or bare hex.
    package init?(written text: String) {
        let bare =
            text.hasPrefix("msg_") || text.hasPrefix("trf_") || text.hasPrefix("evt_") ? text.dropFirst(4) : text[...]
        self.init(hex: bare)
    }
}

extension Scope {
    /// For the keys of what a source names by itself.
    var ofSourceAlone: Scope { Scope(source: source, app: "", environment: "") }
}

private struct Digest {
    /// Hashed in one piece: an update of a hash costs more than a short part.
    private var parts: [UInt8] = []

    init(_ purpose: String) { add(purpose) }

    init(_ purpose: String, scope: Scope) {
        parts.reserveCapacity(256)
        add(purpose)
        add(scope.source)
        add(scope.app)
        add(scope.environment)
    }

    mutating func add(_ part: String) {
        var part = part
        part.withUTF8 { utf8 in
            withUnsafeBytes(of: UInt32(utf8.count).bigEndian) { parts.append(contentsOf: $0) }
            parts.append(contentsOf: utf8)
        }
    }

    func finish() -> Identifier { KeyHash.body(parts) }
}
