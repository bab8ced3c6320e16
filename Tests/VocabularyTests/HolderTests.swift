import Testing
import Vocabulary

@Suite("Holders")
struct HolderTests {
    @Test(
        "One text for each holder, and back",
        arguments: ["jeff", "", "user:x", "anon:", "é\u{301}", "\u{301}x", "🏳️‍🌈"])
    func storageKey(id: String) {
        for holder in [Holder.user(id), .anonymous(id)] {
            #expect(Holder(storageKey: holder.storageKey) == holder)
            #expect(holder.id == id)
        }
        #expect(Holder.user(id) != .anonymous(id))
        #expect(Holder.user(id).storageKey == "user:" + id && Holder.anonymous(id).storageKey == "anon:" + id)
    }

    @Test("Nothing else is a holder", arguments: ["", "user", "jeff", "USER:jeff", "anonymous:x", " user:jeff"])
    func refused(text: String) { #expect(Holder(storageKey: text) == nil) }

    @Test("Two spellings of one letter are two holders, as they are two in the database")
    func spellings() {
        let composed = Holder.user("caf\u{E9}")
        let decomposed = Holder.user("cafe\u{301}")
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect((composed < decomposed) != (decomposed < composed))
    }

    @Test("Anonymous holders come first, then ids by their bytes")
    func order() {
        let sorted: [Holder] = [
            .anonymous(""), .anonymous("B"), .anonymous("a"), .anonymous("\u{FF5E}"), .anonymous("\u{10000}"),
            .user("A"), .user("Aa"), .user("a"),
        ]
        for _ in 0..<20 { #expect(sorted.shuffled().sorted() == sorted) }
        #expect(!(Holder.user("a") < .user("a")))
    }

    @Test("The vendor's field names")
    func fields() {
        #expect(Holder.user("x").fieldName == "user_id" && Holder.anonymous("x").fieldName == "anonymous_user_id")
        #expect(Holder.anonymous("x").isAnonymous && !Holder.user("x").isAnonymous)
    }
}
