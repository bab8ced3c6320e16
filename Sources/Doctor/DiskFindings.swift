package import Linux

/// Judges the space that is left where the private cluster lies.
package enum DiskFindings {
    /// Below either of these nothing may be recorded soon.
    private static let wrongBytes = 1 << 30
    private static let wrongPercent = 3.0
    /// Below both of these it is time to look.
    private static let noteBytes = 10 << 30
    private static let notePercent = 10.0

    /// - Parameters:
    ///   - directory: of the private cluster; nil: `[database] url` names the database.
    ///   - looked: the directory that `space` is of, the nearest one that is there.
    ///   - space: nil: it could not be read.
    package static func of(directory: String?, looked: String, space: DiskSpace?) -> [DoctorFinding] {
        guard let directory else {
            return [
                DoctorFinding(
                    .disk, .unknown, "the database is a PostgreSQL of your own: its disk cannot be seen from here",
                    do: "df -h on its machine")
            ]
        }
        guard let space, space.sizeBytes > 0 else {
            return [DoctorFinding(.disk, .unknown, "the disk of \(directory) cannot be seen", do: "run this as root")]
        }
        let percent = Double(space.availableBytes) * 100 / Double(space.sizeBytes)
        let place = looked == directory ? directory : "\(directory) (\(looked))"
        let text =
            "\(BytesText.write(space.availableBytes)) of \(BytesText.write(space.sizeBytes)) are left for \(place), "
            + "\(Int(percent)) %"
        let advice = "make room, or let [retention] keep less: without space no webhook is acknowledged"
        if space.availableBytes < wrongBytes || percent < wrongPercent {
            return [DoctorFinding(.disk, .wrong, text, do: advice)]
        }
        if space.availableBytes < noteBytes, percent < notePercent {
            return [DoctorFinding(.disk, .note, text, do: advice)]
        }
        return [DoctorFinding(.disk, .fine, text)]
    }
}
