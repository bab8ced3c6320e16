internal import Vocabulary

/// Times that a vendor writes in seconds since 1970 in one place and in milliseconds in another (as in Qonversion's own
/// examples), distinguished by the size of the number.
extension BodyFields {
    /// Numbers up to this are seconds (the year 5138), larger ones milliseconds (from March 1973 on).
    private static let secondsMax: Int64 = 100_000_000_000

    /// The event time, in the first of the two keys that is there.
    func requiredEpoch(_ first: String, else second: String) throws(Unreadable) -> Timestamp {
        try Self.writable(Self.bySize(try requiredTime(.milliseconds(first), .milliseconds(second))), first)
    }

    func requiredEpoch(_ key: String) throws(Unreadable) -> Timestamp {
        try Self.writable(Self.bySize(try requiredTime(.milliseconds(key))), key)
    }

    private static func writable(_ time: Timestamp, _ key: String) throws(Unreadable) -> Timestamp {
        guard Timestamp.writable.contains(time) else {
            throw Unreadable(reason: "\(key) lies outside the years 0000 to 9999")
        }
        return time
    }

    /// Nil if it is absent or 0, which means "never".
    func epoch(_ key: String) -> Timestamp? {
        guard let read = time(.milliseconds(key)), read.milliseconds != 0 else { return nil }
        return Self.bySize(read).nearestWritable
    }

    private static func bySize(_ read: Timestamp) -> Timestamp {
        guard read.milliseconds.magnitude <= secondsMax.magnitude else { return read }
        return Timestamp(milliseconds: read.milliseconds * 1_000)
    }
}
