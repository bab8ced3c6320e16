import Vocabulary

extension Secret {
    var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }
}
