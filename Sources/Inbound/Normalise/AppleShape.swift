internal import JSONText
package import Vocabulary

/// Bodies in Apple's shape: derived ones, and samples for `posthouse send`.
extension Apple {
    package var isSealed: Bool { true }

    /// A transfer in the members of a notification, in clear: nobody but Apple can seal one. Receivers with
    /// `format = "source"` therefore get derived transfers in the standard shape; this is for whoever needs the
    /// original's members beside them.
    package func derivedBody(from original: [UInt8], stating transfer: DerivedTransfer) -> [UInt8] {
        let object = decoded(original, answer: nil).map(DerivedBody.object) ?? .empty
        let changes: DerivedBody.Changes = [
            ("notificationType", .string(transfer.type)), ("subtype", .remove),
            ("notificationUUID", .string(transfer.eventID)),
            ("transferredFrom", .set(Self.named(transfer.from))), ("transferredTo", .set(Self.named(transfer.to))),
        ]
        return JSONEdit.apply(changes, to: object)
    }

    private static func named(_ holder: Holder) -> [UInt8] {
        JSONWriter.object { $0.member(holder.fieldName, holder.id) }
    }

    // MARK: Samples

    /// The bundle id of samples.
    package static let sampleBundleID = "com.example.app"

    /// A sample that is signed under a chain made for it alone, so that no source takes it for authentic.
    package func sample(_ request: SampleRequest) -> [UInt8] {
        do {
            return try sample(request, chain: AppleChain.make(), at: request.occurredAt)
        } catch {
            // Making keys and signing with them do not fail.
            return Array("{}".utf8)
        }
    }

    package func signedSample(
        _ request: SampleRequest, with chain: AppleChain, bundleID: String?
    ) throws(AppleChain.Failure) -> [UInt8] {
        try sample(request, chain: chain, bundleID: bundleID ?? Self.sampleBundleID, at: request.occurredAt)
    }

    /// A sample that is authentic for a source with the chain's root among its `roots` and `bundleID` among its
    /// `bundle_ids`.
    ///
    /// The account token is a UUID: one for a user that is none is made from it, always the same. An anonymous holder
    /// has no token: the purchase itself is its name.
    ///
    /// - Parameter time: `signedDate`, which is the event time; what the sample states happened shortly before.
    package func sample(
        _ request: SampleRequest, chain: AppleChain, bundleID: String = Apple.sampleBundleID, at time: Timestamp
    ) throws(AppleChain.Failure) -> [UInt8] {
        let sample = AppleSample(request: request, bundleID: bundleID, signedAt: time.nearestWritable)
        var sealed: [(name: String, text: String)] = []
        for part in sample.parts {
            let text = try chain.sign(part.text)
            sealed.append((part.name, text))
        }
        let payload = try chain.sign(sample.payload(sealed))
        return JSONWriter.object { $0.member("signedPayload", payload) }
    }
}
