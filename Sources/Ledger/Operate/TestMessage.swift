import JSONText
package import Vocabulary

/// The message of `posthouse test`, in the shape of a `RelayMessage`. It is stored nowhere, and sent whatever
/// the integration's `events` are.
package enum TestMessage {
    package static let type = "posthouse.test"

    /// - Parameters:
    ///   - integration: the name of the integration that it is sent to.
    ///   - version: of Posthouse.
    ///   - key: becomes the `webhook-id`; a random one for each test.
    ///   - time: `timestamp` of the message.
    package static func make(
        for integration: String, version: String, key: Identifier, at time: Timestamp
    ) -> Message {
        let scope = Scope(
            source: RelayMessage.source, app: "", environment: RelayMessage.environment)
        let eventID = "pst_\(key.hex)"
        let original = JSONWriter.object { json in
            // `format = "source"` sends these members alone: the name says what they are.
            json.member("event_name", type)
            json.member("integration", integration)
            json.member("version", version)
        }
        let envelope = MessageEnvelope.write(
            .init(type: type, eventID: eventID, eventName: type), of: .init(), in: scope, at: time)
        return Message(
            row: 0, id: key.messageID, eventID: eventID, type: type, source: scope.source, transaction: nil,
            purchase: nil, purchaseKey: nil, transferID: nil, envelope: envelope, original: original, derivedBody: nil)
    }
}
