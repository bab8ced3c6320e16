/// Appends JSON to bytes and adds commas and escapes.
///
/// Builds no tree and does not check the structure: a key belongs before each value inside `object`, none inside
/// `array`.
package struct JSONWriter: Sendable {
    package private(set) var bytes: [UInt8] = []
    /// A value was written in the current container, so that the next one needs a comma before it.
    private var needsComma = false

    package init(reservingCapacity capacity: Int = 256) { bytes.reserveCapacity(capacity) }

    package mutating func object<Failure: Error>(
        _ members: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        open(UInt8(ascii: "{"))
        try members(&self)
        close(UInt8(ascii: "}"))
    }

    package mutating func array<Failure: Error>(
        _ elements: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        open(UInt8(ascii: "["))
        try elements(&self)
        close(UInt8(ascii: "]"))
    }

    package mutating func key(_ key: String) {
        string(key)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    package mutating func string(_ value: String) {
        beginValue()
        Self.append(value, to: &bytes)
    }

    package mutating func integer(_ value: some BinaryInteger) { token(String(value)) }

    package mutating func bool(_ value: Bool) { token(value ? "true" : "false") }

    package mutating func null() { token("null") }

    /// Writes one JSON value unchanged.
    package mutating func raw(_ value: some Collection<UInt8>) {
        beginValue()
        bytes.append(contentsOf: value)
    }

    // A member whose value may be absent: null is written then.

    package mutating func member(_ key: String, _ value: String?) {
        self.key(key)
        if let value { string(value) } else { null() }
    }

    package mutating func member(_ key: String, _ value: (some BinaryInteger)?) {
        self.key(key)
        if let value { integer(value) } else { null() }
    }

    package mutating func member(_ key: String, _ value: Bool?) {
        self.key(key)
        if let value { bool(value) } else { null() }
    }

    /// A list of objects; `write` writes the members of one.
    package mutating func member<Element>(
        _ key: String, objects elements: some Sequence<Element>, _ write: (Element, inout JSONWriter) -> Void
    ) {
        self.key(key)
        array { json in
            for element in elements { json.object { write(element, &$0) } }
        }
    }

    package mutating func member(_ key: String, strings: some Sequence<String>) {
        self.key(key)
        array { json in for string in strings { json.string(string) } }
    }

    /// An object; null where there is no value.
    package mutating func member<Value>(
        _ key: String, object value: Value?, _ write: (Value, inout JSONWriter) -> Void
    ) {
        self.key(key)
        if let value { object { write(value, &$0) } } else { null() }
    }

    /// The bytes of one object.
    package static func object(_ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var json = JSONWriter()
        json.object(members)
        return json.bytes
    }

    /// `value` as a JSON string with its quotes.
    package static func literal(_ value: String) -> [UInt8] {
        var out = [UInt8]()
        append(value, to: &out)
        return out
    }

    private mutating func token(_ text: String) {
        beginValue()
        bytes.append(contentsOf: text.utf8)
    }

    private mutating func beginValue() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func open(_ brace: UInt8) {
        beginValue()
        bytes.append(brace)
        needsComma = false
    }

    private mutating func close(_ brace: UInt8) {
        bytes.append(brace)
        needsComma = true
    }

    /// Escapes only what RFC 8259 §7 requires.
    private static func append(_ value: String, to out: inout [UInt8]) {
        out.append(UInt8(ascii: "\""))
        var value = value
        value.withUTF8 { utf8 in
            if utf8.contains(where: mustBeEscaped) {
                for byte in utf8 { appendEscaped(byte, to: &out) }
            } else {
                out.append(contentsOf: utf8)
            }
        }
        out.append(UInt8(ascii: "\""))
    }

    private static func mustBeEscaped(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x22 || byte == 0x5C }

    private static func appendEscaped(_ byte: UInt8, to out: inout [UInt8]) {
        guard mustBeEscaped(byte) else { return out.append(byte) }
        out.append(UInt8(ascii: "\\"))
        switch byte {
        case 0x0A: out.append(UInt8(ascii: "n"))
        case 0x0D: out.append(UInt8(ascii: "r"))
        case 0x09: out.append(UInt8(ascii: "t"))
        case 0x22, 0x5C: out.append(byte)
        default:
            out.append(contentsOf: "u00".utf8)
            out.append(UInt8(ascii: "0") + byte >> 4)
            out.append(byte & 15 < 10 ? UInt8(ascii: "0") + byte & 15 : UInt8(ascii: "a") + byte & 15 - 10)
        }
    }
}
