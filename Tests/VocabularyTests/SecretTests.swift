import Testing
import Vocabulary

@Suite("Secrets")
struct SecretTests {
    private let secret = Secret(Array("hunter2-hunter2".utf8))

    private struct Holding {
        let name = "shop"
        let secret: Secret
    }

    @Test("Whatever prints it shows nothing of it")
    func prints() {
        let holding = Holding(secret: secret)
        var dumped = ""
        dump(holding, to: &dumped)
        dump([secret], to: &dumped)
        let key = Integration.SigningKey.symmetric(secret)
        let shown = [
            "\(secret)", String(describing: secret), String(reflecting: secret), "\(holding)",
            String(reflecting: holding), "\([secret])", "\(Optional(secret) as Any)", "\(["a": secret])", "\(key)",
            String(reflecting: key), "\(Mirror(reflecting: secret).children.count)", dumped,
        ]
        let bytes = secret.withBytes { "\($0)".dropFirst().dropLast() }
        for text in shown {
            #expect(!text.contains("hunter") && !text.contains(bytes), "\(text)")
            #expect(!text.contains("68756e746572") && !text.contains("aHVudGVy"), "neither as hex nor as base64")
        }
        #expect("\(secret)" == "(secret)")
    }

    @Test("Equal bytes match, everything else does not")
    func matches() {
        #expect(secret.matches(Array("hunter2-hunter2".utf8)))
        for other in ["", "hunter2-hunter", "hunter2-hunter22", "Hunter2-hunter2", "hunter2-hunter3"] {
            #expect(!secret.matches(Array(other.utf8)), "\(other)")
        }
        #expect(Secret([]).matches([]) && Secret([]).isEmpty && !secret.isEmpty)
        #expect(secret == Secret(Array("hunter2-hunter2".utf8)) && secret != Secret([]))
        #expect(secret.withBytes { $0.count } == 15)
    }
}
