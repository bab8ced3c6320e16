import Doctor
import Linux

extension DiskSpace {
    /// What STATUS and the journal say of the private cluster's disk when it is low.
    var lowText: String {
        "the disk of the private cluster has \(BytesText.write(availableBytes)) of \(BytesText.write(sizeBytes)) left; "
            + "once it is full, webhooks are answered 503"
    }
}
