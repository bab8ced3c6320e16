/// Who holds a purchase: exactly one of a known user and an anonymous one.
///
/// The database stores a holder as one text (`user:…` / `anon:…`), never as two nullable columns: a UNIQUE constraint
/// does not apply to NULL.
package enum Holder: Hashable, Sendable {
    case user(String)
    case anonymous(String)

    /// `user:` or `anon:` before the vendor's id.
    package var storageKey: String {
        switch self {
        case .user(let id): "user:" + id
        case .anonymous(let id): "anon:" + id
        }
    }

    /// Reads what `storageKey` wrote; nil for anything else. Compares bytes, because an id may begin with a combining
    /// mark.
    package init?(storageKey: some StringProtocol) {
        let id = String(decoding: storageKey.utf8.dropFirst(5), as: UTF8.self)
        if storageKey.utf8.starts(with: "user:".utf8) {
            self = .user(id)
        } else if storageKey.utf8.starts(with: "anon:".utf8) {
            self = .anonymous(id)
        } else {
            return nil
        }
    }

    /// The vendor's id without its prefix.
    package var id: String {
        switch self {
        case .user(let id), .anonymous(let id): id
        }
    }

    package var isAnonymous: Bool {
        if case .anonymous = self { true } else { false }
    }

    /// The key under which a holder is written in JSON, after Purchasely's field names.
    package var fieldName: String { isAnonymous ? "anonymous_user_id" : "user_id" }
}

/// Compares ids byte by byte, as PostgreSQL does. Swift's own equality treats two spellings of one accented letter as
/// equal, and two holders must never become one.
extension Holder {
    package static func == (left: Holder, right: Holder) -> Bool {
        left.isAnonymous == right.isAnonymous && left.id.hasSameBytes(as: right.id)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(isAnonymous)
        var id = id
        id.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension Holder: Comparable {
    /// Anonymous holders sort first, then by id: the tie rule of tenures (Domain.md, "Transfers").
    package static func < (left: Holder, right: Holder) -> Bool {
        if left.isAnonymous != right.isAnonymous { return left.isAnonymous }
        return left.id.utf8.lexicographicallyPrecedes(right.id.utf8)
    }
}

extension String {
    /// Compares byte for byte. Iterating over two UTF-8 views costs several times as much.
    package func hasSameBytes(as other: String) -> Bool {
        var (left, right) = (self, other)
        return left.withUTF8 { left in
            right.withUTF8 { right in left.count == right.count && left.elementsEqual(right) }
        }
    }
}
