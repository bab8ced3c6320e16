/// The text of a statement: a literal, or one put together of literals. Nothing from outside can become part of it.
@usableFromInline package struct SQL: ExpressibleByStringInterpolation, Sendable {
    @usableFromInline let text: String

    @usableFromInline package init(stringLiteral value: StaticString) { text = value.description }

    @usableFromInline package init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    @usableFromInline package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        @usableFromInline package init(literalCapacity: Int, interpolationCount: Int) {}

        @usableFromInline package mutating func appendLiteral(_ literal: StaticString) { text += literal.description }

        package mutating func appendInterpolation(_ part: SQL) { text += part.text }
    }
}
