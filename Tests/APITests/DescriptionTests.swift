import Foundation
import Testing
import Vocabulary

@testable import API

/// Oracle: the handler's own table of operations, parameters and error codes. What one has and the other has not fails;
/// fields and statuses are held by every test that gets an answer (`Description.hold`).
@Suite("The description of the API")
struct DescriptionTests {
    private let description = Description.shared

    @Test("Every path, method and operation, both ways")
    func operations() {
        #expect(description.root["openapi"] as? String == "3.1.0")
        var described: Set<String> = []
        for (path, methods) in description.paths {
            for (method, operation) in methods {
                let id = (operation as? [String: Any])?["operationId"] as? String ?? "-"
                described.insert("\(method.uppercased()) \(path) \(id)")
            }
        }
        #expect(described == Set(APIOperation.allCases.map { "\($0.method) \($0.path) \($0.rawValue)" }))
    }

    @Test("Every parameter, both ways", arguments: APIOperation.allCases)
    func parameters(operation: APIOperation) {
        #expect(description.queryParameters(operation) == Set(operation.parameters.map(\.rawValue)))
        let inPath = (description.operation(operation)["parameters"] as? [Any] ?? []).map(description.resolve)
            .filter { $0["in"] as? String == "path" }
        let named = operation.path.matches(of: /\{(\w+)\}/).map { String($0.1) }
        #expect(inPath.compactMap { $0["name"] as? String } == named)
        #expect(inPath.allSatisfy { $0["required"] as? Bool == true })
    }

    @Test("The kinds of source whose events name an app are those that need the parameter")
    func kindsWithApps() {
        let app = description.resolve(["$ref": "#/components/parameters/App"])["description"] as? String ?? ""
        let named = app.split(whereSeparator: { " ,()".contains($0) }).map(String.init)
        let kinds = SourceKind.allCases.filter { named.contains($0.rawValue) }
        #expect(kinds == SourceKind.allCases.filter(\.traits.namesApp))
    }

    @Test("Every operation says what it answers", arguments: APIOperation.allCases)
    func statuses(operation: APIOperation) {
        let always = [200, 400, 401, 403, 404, 405, 413, 431, 503] + (operation.method == "GET" ? [304] : [])
        for status in always { #expect(description.response(operation, status)?["description"] is String, "\(status)") }
        #expect((description.operation(operation)["summary"] as? String)?.isEmpty == false)
        let text = description.operation(operation)["description"] as? String ?? ""
        #expect(text.hasSuffix(operation.scope == .read ? "Scope: read." : "Scope: write."))
        #expect((description.operation(operation)["requestBody"] != nil) == Self.bodies.contains(operation))
    }

    private static let bodies: Set<APIOperation> = [
        .judgeReceipt, .identify, .restore, .createUser, .createIdentity, .grantEntitlement,
    ]

    @Test("Every error code, both ways")
    func errorCodes() throws {
        let schemas = try #require((description.root["components"] as? [String: Any])?["schemas"] as? [String: Any])
        let error = description.resolve(
            (description.resolve(schemas["Error"])["properties"] as? [String: Any])?["error"])
        let properties = try #require(error["properties"] as? [String: Any])
        #expect(description.resolve(properties["code"])["enum"] as? [String] == ErrorCode.allCases.map(\.rawValue))
        #expect(
            description.resolve(properties["type"])["enum"] as? [String] == APIFailure.Kind.allCases.map(\.rawValue))
    }

    @Test("Every reference leads somewhere, every component is used, every path needs the token")
    func references() throws {
        let text = String(decoding: API.descriptionBytes, as: UTF8.self)
        let references = Set(text.matches(of: /"\$ref": "([^"]+)"/).map { String($0.1) })
        #expect(references.count > 30)
        for reference in references { #expect(!description.resolve(["$ref": reference]).isEmpty, "\(reference)") }
        let components = try #require(description.root["components"] as? [String: [String: Any]])
        for (kind, entries) in components where kind != "securitySchemes" {
            for name in entries.keys { #expect(references.contains("#/components/\(kind)/\(name)"), "\(name)") }
        }
        #expect((description.root["security"] as? [[String: Any]])?.first?["bearer"] != nil)
        #expect(!text.contains("\"security\": []"))
    }

    @Test("Examples are what their schemas allow")
    func examples() throws {
        let components = try #require(description.root["components"] as? [String: [String: Any]])
        var count = 0
        for (name, schema) in components["schemas"] ?? [:] {
            for example in description.resolve(schema)["examples"] as? [Any] ?? [] {
                count += 1
                #expect(description.fault(example, schema) == nil, "\(name)")
            }
        }
        #expect(count >= 6)
    }

    @Test("The limits that the description states are the handler's")
    func limits() {
        let text = String(decoding: API.descriptionBytes, as: UTF8.self)
        #expect(
            text.contains(
                "\"minimum\": 1, \"maximum\": \(APILimits.pageEntriesMax), \"default\": \(APILimits.pageEntries)"))
        #expect(text.contains("\"maxItems\": \(APILimits.groupsMax)"))
        #expect(text.contains("\"maxItems\": \(APILimits.restoreTransactionsMax)"))
    }
}
