/// Why and where a text is not the expected JSON. Never quotes the text, because bodies hold personal data.
package struct JSONError: Error, Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        // Errors of the text itself.
        case notUTF8
        case notAnObject
        case unexpectedEnd
        case unexpectedByte
        case bytesAfterTheObject
        case malformedNumber
        case malformedEscape
        case loneSurrogate
        case controlCharacter
        case nul
        case tooDeep
        case duplicateKey

        // Members of another type than requested.
        case notAString
        case notAnInteger
        case notAnIdentifier
        case notABoolean
        case notAnArray
    }

    package let reason: Reason
    /// Bytes from the start of the whole text.
    package let offset: Int

    package init(_ reason: Reason, at offset: Int) {
        self.reason = reason
        self.offset = offset
    }
}

extension JSONError: CustomStringConvertible {
    package var description: String { "\(reason.text) at byte \(offset)" }
}

extension JSONError.Reason {
    fileprivate var text: String {
        switch self {
        case .notUTF8: "invalid UTF-8"
        case .notAnObject: "not a JSON object"
        case .unexpectedEnd: "unexpected end of the text"
        case .unexpectedByte: "unexpected character"
        case .bytesAfterTheObject: "something after the object"
        case .malformedNumber: "malformed number"
        case .malformedEscape: "malformed escape"
        case .loneSurrogate: "surrogate without its other half"
        case .controlCharacter: "control character in a string"
        case .nul: "NUL"
        case .tooDeep: "nested too deeply"
        case .duplicateKey: "duplicate key"
        case .notAString: "not a string"
        case .notAnInteger: "not an integer of 64 bits"
        case .notAnIdentifier: "neither a string nor an integer"
        case .notABoolean: "not a boolean"
        case .notAnArray: "not an array"
        }
    }
}
