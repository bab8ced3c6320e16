import Crypto
package import Vocabulary

/// The identities of the relay's own: each a SHA-256 over named parts, cut to 16 bytes. Every part is written with its
/// length before it, so that no two lists of parts give the same bytes.
package enum Identity {
    /// Level one: what makes two webhooks the same event (Domain.md, "Event key").
    ///
    /// The vendor's event id where there is one; else everything that tells distinct events of one transaction apart:
    /// a transfer's DEACTIVATE and ACTIVATE share transaction and time, two purchases may share a transaction id.
    package static func event(_ event: Event) -> Identifier {
        if let id = event.vendorEventID { return self.event(vendorEventID: id, in: event.scope) }
        var digest = Digest("event", scope: event.scope)
        digest.add("parts")
        digest.add(event.purchase?.store ?? "")
        digest.add(event.purchase?.key ?? "")
        digest.add(event.transaction?.storeTransactionID ?? "")
        digest.add(event.name)
        digest.add(event.holder.coalesced)
        digest.add(String(event.occurredAt.milliseconds))
        return digest.finish()
    }

    /// The same where the vendor names its events: nothing but the name and its scope.
    static func event(vendorEventID: String, in scope: Scope) -> Identifier {
        var digest = Digest("event", scope: scope)
        digest.add("id")
        digest.add(vendorEventID)
        return digest.finish()
    }

    /// Level two: (source, app, environment, store, purchase key).
    package static func purchase(_ purchase: Purchase, in scope: Scope) -> Identifier {
        var digest = Digest("purchase", scope: scope)
        digest.add(purchase.store)
        digest.add(purchase.key)
        return digest.finish()
    }

    /// (purchase, from, to, n), never a time.
    package static func transfer(purchase: Identifier, from: Holder, to: Holder, ordinal: Int) -> Identifier {
        var digest = Digest("transfer")
        digest.add(purchase.hex)
        digest.add(from.coalesced)
        digest.add(to.coalesced)
        digest.add(String(ordinal))
        return digest.finish()
    }

    /// A daemon, by what its successor on the same machine and state directory finds of it.
    package static func daemon(machine: [UInt8], device: UInt64, inode: UInt64, token: String) -> Identifier {
        var digest = Digest("daemon")
        digest.add(Identifier(bytes: machine).hex)
        digest.add(String(device))
        digest.add(String(inode))
        digest.add(token)
        return digest.finish()
    }

    /// The message that passes an event on.
    package static func message(passingOn event: Identifier) -> Identifier {
        var digest = Digest("message")
        digest.add(event.hex)
        return digest.finish()
    }

    /// One of the two messages of a transfer: the same id whether a native webhook or the relay states it.
    package static func message(ofTransfer transfer: Identifier, type: String) -> Identifier {
        var digest = Digest("transfer message")
        digest.add(transfer.hex)
        digest.add(type)
        return digest.finish()
    }

    /// Half of the key of a source's advisory lock. Two sources that share one wait for each other, and no more.
    static func lock(ofSource source: String) -> Int32 {
        var digest = Digest("lock")
        digest.add(source)
        return Int32(truncatingIfNeeded: digest.finish().high)
    }

    /// What tells the bytes of two bodies apart.
    package static func body(_ bytes: [UInt8]) -> Identifier {
        SHA256.hash(data: bytes).withUnsafeBytes { Identifier(rawBytes: $0) }
    }
}

/// How identities are written outside the database: at most 36 characters (Standard Webhooks asks for a short id).
extension Identifier {
    package var messageID: String { "msg_" + hex }
    package var transferID: String { "trf_" + hex }
    package var eventID: String { "evt_" + hex }

    /// Reads any of the three written forms, or bare hex.
    package init?(written text: String) {
        let bare =
            text.hasPrefix("msg_") || text.hasPrefix("trf_") || text.hasPrefix("evt_") ? text.dropFirst(4) : text[...]
        self.init(hex: bare)
    }
}

private struct Digest {
    private var hash = SHA256()

    init(_ purpose: String) { add(purpose) }

    init(_ purpose: String, scope: Scope) {
        add(purpose)
        add(scope.source)
        add(scope.app)
        add(scope.environment)
    }

    mutating func add(_ part: String) {
        var part = part
        part.withUTF8 { utf8 in
            withUnsafeBytes(of: UInt32(utf8.count).bigEndian) { hash.update(bufferPointer: $0) }
            hash.update(bufferPointer: UnsafeRawBufferPointer(utf8))
        }
    }

    consuming func finish() -> Identifier { hash.finalize().withUnsafeBytes { Identifier(rawBytes: $0) } }
}
