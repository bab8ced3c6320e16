/// Whom a message was for (`messages.integrations`): the rows of the integrations that selected it when it was
/// recorded, and of those that a backfill gave it to, with commas between.
enum MessageReceivers {
    static func text(_ rows: [Int32]) -> String { rows.map { "\($0)" }.joined(separator: ",") }

    /// - Returns: nil: no daemon writes such a text.
    static func rows(_ text: String) -> [Int32]? {
        if text.isEmpty { return [] }
        var rows: [Int32] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let row = Int32(part) else { return nil }
            rows.append(row)
        }
        return rows
    }
}
