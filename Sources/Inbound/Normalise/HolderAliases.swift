internal import Vocabulary

extension [HolderLink] {
    /// The anonymous ids that are a user's, each once, but for those that are holders themselves.
    func aliases(of holders: [Holder]) -> [Holder] {
        var aliases: [Holder] = []
        for link in self {
            let alias = Holder.anonymous(link.anonymousID)
            if !holders.contains(alias), !aliases.contains(alias) { aliases.append(alias) }
        }
        return aliases
    }
}
