/// A place in a file. Lines and columns count from one; a column is one Unicode scalar.
package struct Span: Sendable, Hashable {
    package let line: Int
    package let column: Int
    package let endLine: Int
    /// After the last character.
    package let endColumn: Int
}

extension Span {
    /// A single character.
    init(line: Int, column: Int) {
        self.init(line: line, column: column, endLine: line, endColumn: column + 1)
    }
}

/// A value with its place in the file.
struct Located<Value: Sendable>: Sendable {
    let value: Value
    let span: Span
}

extension Located: Equatable where Value: Equatable {}

/// One value of a TOML document, copied out of the parser.
struct TomlNode: Sendable {
    enum Value: Sendable {
        case table([TomlEntry])
        case array([TomlNode])
        case string(String)
        case integer(Int)
        case real(Double)
        case boolean(Bool)
        case dateTime
    }

    let value: Value
    /// The header of a `[table]`; the value of anything else.
    let span: Span

    /// With its article, for messages.
    var kindName: String {
        switch value {
        case .table: "a table"
        case .array: "an array"
        case .string: "a string"
        case .integer: "an integer"
        case .real: "a float"
        case .boolean: "a boolean"
        case .dateTime: "a date or time"
        }
    }

    /// The entries of a table in the order of the file; nil for anything else.
    var entries: [TomlEntry]? {
        if case .table(let entries) = value { entries } else { nil }
    }
}

/// `key = value`, or a table under its header.
struct TomlEntry: Sendable {
    let key: String
    let keySpan: Span
    let node: TomlNode
}
