package import Vocabulary

/// Judges when a certificate ends.
package enum CertificateFindings {
    private static let dayMilliseconds: Int64 = 86_400_000
    /// A certificate that ends within so many days is mentioned.
    private static let daysNoted: Int64 = 21

    /// Why the end of a certificate is not known.
    package enum Failure: Error, Sendable, Hashable {
        /// A client, or a delivery, would fail for the same reason.
        case unusable(String)
        /// This process could not look.
        case unseen(String)
    }

    /// The certificate of a receiver, as a delivery would meet it.
    package static func ofReceiver(
        _ receiver: DeliveryFindings.Receiver, _ end: Result<Timestamp, Failure>, now: Timestamp
    ) -> DoctorFinding {
        of(
            "\(receiver.name) (\(receiver.host))", end, now: now,
            advice: "repair the receiver's certificate, its address or ca_file; posthouse retry \(receiver.name)")
    }

    /// - Parameters:
    ///   - subject: whose it is, such as `[server] tls` or `backend (api.example.com)`.
    ///   - advice: what to do where it has ended, soon will, or cannot be used.
    package static func of(
        _ subject: String, _ end: Result<Timestamp, Failure>, now: Timestamp, advice: String
    ) -> DoctorFinding {
        switch end {
        case .failure(.unusable(let reason)):
            return DoctorFinding(.certificates, .wrong, "\(subject): \(reason)", do: advice)
        case .failure(.unseen(let reason)):
            return DoctorFinding(.certificates, .unknown, "\(subject): \(reason)")
        case .success(let end):
            let left = end.milliseconds - now.milliseconds
            guard Timestamp.writable.contains(end) else {
                return DoctorFinding(.certificates, .fine, "\(subject): its certificate does not end")
            }
            let day = end.iso8601.prefix(10)
            if left <= 0 {
                return DoctorFinding(
                    .certificates, .wrong, "\(subject): its certificate ended on \(day)", do: advice)
            }
            let text = "\(subject): its certificate ends on \(day), in \(PeriodText.write(milliseconds: left))"
            guard left >= daysNoted * dayMilliseconds else {
                return DoctorFinding(.certificates, .note, text, do: advice)
            }
            return DoctorFinding(.certificates, .fine, text)
        }
    }
}
