import Testing
import Vocabulary

@Suite("Header fields")
struct HeaderFieldTests {
    @Test("A name is a token, a value has no control character")
    func texts() {
        for name in ["a", "X-Key", "!#$%&'*+-.^_`|~09Zz"] { #expect(HeaderField.isName(name)) }
        for name in ["", "a b", "x:", "é", "a\r\n", "(a)", "a/b"] { #expect(!HeaderField.isName(name)) }
        for value in ["", "a b", "é", "~"] { #expect(HeaderField.isValue(value.utf8)) }
        for value in ["a\nb", "a\r", "\0", "a\tb", "\u{7f}"] { #expect(!HeaderField.isValue(value.utf8)) }
    }

    @Test("What frames a request is reserved, and so is what the relay sends itself")
    func reserved() {
        for name in ["host", "content-length", "transfer-encoding", "connection", "te", "expect"] {
            #expect(HeaderField.isFraming(name) && Integration.isReserved(header: name))
        }
        for name in ["content-type", "webhook-id", "webhook-signature", "webhook-anything"] {
            #expect(!HeaderField.isFraming(name) && Integration.isReserved(header: name))
        }
        for name in ["authorization", "user-agent", "accept", "x-webhook-id"] {
            #expect(!Integration.isReserved(header: name))
        }
    }
}
