import CToml

/// Why a file is no TOML document.
struct TomlError: Error {
    let message: String
    /// Nil where it concerns the file as a whole.
    let span: Span?
}

/// Reads a TOML document into a tree of plain values. The only user of CToml.
enum TomlReader {
    static func read(_ bytes: [UInt8]) throws(TomlError) -> TomlNode {
        guard bytes.count <= ConfigurationLimits.fileBytesMax else {
            throw TomlError(
                message: "is larger than \(ConfigurationLimits.fileBytesMax >> 20) MiB, the limit for a configuration",
                span: nil)
        }
        if let fault = Prescan.fault(in: bytes) { throw fault }
        let document = try TomlDocument(bytes)
        return try document.tree()
    }
}

/// Owns a parsed document of the C++ side and frees it.
private struct TomlDocument: ~Copyable {
    private let handle: OpaquePointer

    init(_ bytes: [UInt8]) throws(TomlError) {
        let parsed = bytes.withUnsafeBytes { raw in
            ctoml_parse(
                raw.baseAddress?.assumingMemoryBound(to: CChar.self), raw.count, ConfigurationLimits.nestingMax)
        }
        guard let parsed else { throw TomlError(message: "memory ran out while reading it", span: nil) }
        handle = parsed
    }

    deinit { ctoml_free(handle) }

    func tree() throws(TomlError) -> TomlNode {
        var message = ctoml_text()
        var at = ctoml_position()
        if ctoml_failed(handle, &message, &at) {
            throw TomlError(
                message: String(message), span: at.line == 0 ? nil : Span(line: Int(at.line), column: Int(at.column)))
        }
        var count = 0
        let first = ctoml_nodes(handle, &count)
        var cursor = NodeCursor(nodes: UnsafeBufferPointer(start: first, count: count))
        return cursor.next()
    }
}

/// Walks the parser's flat list of nodes. Valid while the document lives.
private struct NodeCursor {
    let nodes: UnsafeBufferPointer<ctoml_node>
    private var index = 0

    init(nodes: UnsafeBufferPointer<ctoml_node>) { self.nodes = nodes }

    /// The node at the cursor with all of its children. Recurses as deep as the parser's limit allows.
    mutating func next() -> TomlNode {
        let node = nodes[index]
        index += 1
        return TomlNode(value: value(of: node), span: Span(from: node.begin, to: node.end))
    }

    private mutating func value(of node: ctoml_node) -> TomlNode.Value {
        switch node.kind {
        case CTOML_TABLE:
            var entries: [TomlEntry] = []
            entries.reserveCapacity(node.children)
            for _ in 0..<node.children {
                let child = nodes[index]
                entries.append(
                    TomlEntry(
                        key: String(child.key), keySpan: Span(from: child.key_begin, to: child.key_end), node: next()))
            }
            // The parser sorts by key; a person reads by line.
            entries.sort { ($0.keySpan.line, $0.keySpan.column) < ($1.keySpan.line, $1.keySpan.column) }
            return .table(entries)
        case CTOML_ARRAY:
            var members: [TomlNode] = []
            members.reserveCapacity(node.children)
            for _ in 0..<node.children { members.append(next()) }
            return .array(members)
        case CTOML_STRING: return .string(String(node.text))
        case CTOML_INTEGER: return .integer(Int(node.integer))
        case CTOML_REAL: return .real(node.real)
        case CTOML_BOOLEAN: return .boolean(node.boolean)
        default: return .dateTime
        }
    }
}

extension Span {
    fileprivate init(from begin: ctoml_position, to end: ctoml_position) {
        self.init(line: Int(begin.line), column: Int(begin.column), endLine: Int(end.line), endColumn: Int(end.column))
    }
}

extension String {
    /// The parser has checked that it is UTF-8.
    fileprivate init(_ text: ctoml_text) {
        self.init(
            decoding: UnsafeRawBufferPointer(start: text.bytes, count: text.count), as: UTF8.self)
    }
}
