import Testing
import Vocabulary

@Suite("URLs of receivers")
struct EndpointURLTests {
    @Test(
        "For a person: scheme and host; path and query may be secrets",
        arguments: [
            (true, "api.example.com", 443, "/hooks", "https://api.example.com/…"),
            (true, "api.example.com", 8_443, "/", "https://api.example.com:8443/"),
            (false, "::1", 9_400, "/a?token=hidden", "http://[::1]:9400/…"),
            (false, "h", 80, "/?x", "http://h/…"), (false, "h", 80, "/a?", "http://h/…"),
        ] as [(Bool, String, Int, String, String)])
    func shown(_ isTLS: Bool, _ host: String, _ port: Int, _ target: String, _ expected: String) {
        #expect(EndpointURL(isTLS: isTLS, host: host, port: port, target: target).shown == expected)
    }
}
