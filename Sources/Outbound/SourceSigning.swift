package import Vocabulary

/// How a source signs, for `format = "source"`.
package struct SourceSigning: Sendable {
    private let shape: any SourceShape
    private let authentication: Source.Authentication
    private let secret: Secret?

    /// `secret` is the source's first; nil: it has none, and no header is added.
    package init(shape: any SourceShape, authentication: Source.Authentication, secret: Secret?) {
        self.shape = shape
        self.authentication = authentication
        self.secret = secret
    }

    func headers(body: [UInt8], unixSeconds: Int64) -> [(String, String)] {
        guard let secret else { return [] }
        return shape.signatureHeaders(
            body: body, unixSeconds: unixSeconds, authentication: authentication, secret: secret
        ).map { ($0.name, $0.value) }
    }
}

/// How every source signs, by its name.
package typealias SourceSignings = Replaceable<[String: SourceSigning]>
