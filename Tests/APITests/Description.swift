import Foundation
import Testing

@testable import API

/// openapi.json as Foundation reads it, and what it allows: every answer of every test is held against it.
///
/// Sendable although Foundation's dictionaries are not: what was read is never changed.
struct Description: @unchecked Sendable {
    static let shared = Description()

    let root: [String: Any]

    private init() {
        let bytes = Data(API.descriptionBytes)
        root = (try? JSONSerialization.jsonObject(with: bytes)) as? [String: Any] ?? [:]
    }

    var paths: [String: [String: Any]] { root["paths"] as? [String: [String: Any]] ?? [:] }

    /// What a reference leads to; anything else is itself.
    func resolve(_ value: Any?) -> [String: Any] {
        guard let object = value as? [String: Any] else { return [:] }
        guard let reference = object["$ref"] as? String else { return object }
        let target = reference.split(separator: "/").dropFirst().reduce(root as Any) { part, key in
            (part as? [String: Any])?[String(key)] as Any
        }
        return resolve(target)
    }

    func operation(_ operation: APIOperation) -> [String: Any] {
        paths[operation.path]?[operation.method.lowercased()] as? [String: Any] ?? [:]
    }

    func response(_ operation: APIOperation, _ status: Int) -> [String: Any]? {
        let responses = self.operation(operation)["responses"] as? [String: Any]
        return responses?[String(status)].map(resolve)
    }

    /// The query parameters of an operation, those of an exploded object one by one.
    func queryParameters(_ operation: APIOperation) -> Set<String> {
        var names: Set<String> = []
        for parameter in (self.operation(operation)["parameters"] as? [Any] ?? []).map(resolve)
        where parameter["in"] as? String == "query" {
            let schema = resolve(parameter["schema"])
            guard schema["type"] as? String == "object", parameter["explode"] as? Bool == true else {
                names.insert(parameter["name"] as? String ?? "")
                continue
            }
            for choice in schema["oneOf"] as? [[String: Any]] ?? [] {
                names.formUnion((choice["properties"] as? [String: Any] ?? [:]).keys)
            }
        }
        return names
    }

    /// What is wrong with `value` by `schema`; nil: nothing. Knows the words of JSON Schema that the file uses for
    /// answers.
    func fault(_ value: Any, _ schema: Any?, at path: String = "") -> String? {
        let schema = resolve(schema)
        if let choices = schema["oneOf"] as? [Any] {
            let fitting = choices.filter { fault(value, $0, at: path) == nil }.count
            return fitting == 1 ? nil : "\(path): fits \(fitting) of \(choices.count) choices"
        }
        if let constant = schema["const"] as? String, value as? String != constant { return "\(path): no \(constant)" }
        if let words = schema["enum"] as? [String], !words.contains(value as? String ?? "") {
            return "\(path): \(value) is not in the enum"
        }
        if let type = schema["type"] {
            let types = type as? [String] ?? [type as? String ?? ""]
            guard types.contains(where: { Self.isOf($0, value) }) else { return "\(path): \(value) is no \(types)" }
        }
        if let items = value as? [Any], schema["items"] != nil {
            for (index, item) in items.enumerated() {
                if let fault = fault(item, schema["items"], at: "\(path)[\(index)]") { return fault }
            }
        }
        guard let object = value as? [String: Any], let properties = schema["properties"] as? [String: Any] else {
            return nil
        }
        let missing = (schema["required"] as? [String] ?? []).filter { object[$0] == nil }
        if !missing.isEmpty { return "\(path): without \(missing)" }
        for (key, member) in object {
            guard let known = properties[key] else { return "\(path): \(key) is not described" }
            if let fault = fault(member, known, at: "\(path).\(key)") { return fault }
        }
        return nil
    }

    private static func isOf(_ type: String, _ value: Any) -> Bool {
        switch type {
        case "null": value is NSNull
        case "string": value is String
        case "boolean": (value as? NSNumber).map(isBoolean) ?? false
        case "integer":
            (value as? NSNumber).map { !isBoolean($0) && $0.doubleValue == $0.doubleValue.rounded() } ?? false
        case "array": value is [Any]
        case "object": value is [String: Any]
        default: false
        }
    }

    /// Foundation reads JSON's booleans as numbers of their own type.
    private static func isBoolean(_ number: NSNumber) -> Bool { String(cString: number.objCType) == "c" }

    /// Records an issue where the answer is not as the file says.
    func hold(_ reply: Reply, to method: String, _ target: String) {
        let path = target.split(separator: "?").first.map(String.init) ?? ""
        guard let route = try? Route(method: method, path: path) else { return }
        guard let described = response(route.operation, reply.status) else {
            Issue.record("\(method) \(path) answers \(reply.status), which is not described")
            return
        }
        for (name, header) in described["headers"] as? [String: Any] ?? [:]
        where resolve(header)["required"] as? Bool == true && reply.headers[name.lowercased()] == nil {
            Issue.record("\(method) \(path) answers \(reply.status) without \(name)")
        }
        guard let content = described["content"] as? [String: Any], let json = content["application/json"] else {
            if !reply.body.isEmpty { Issue.record("\(method) \(path): \(reply.status) has a body") }
            return
        }
        if let fault = fault(reply.object, resolve(json)["schema"]) {
            Issue.record("\(method) \(path): \(reply.status) \(fault)")
        }
    }
}
