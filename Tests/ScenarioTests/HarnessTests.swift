import Foundation
import Testing

/// The harness is the oracle of every scenario, so it is held to something, too.
@Suite struct HarnessTests {
    @Test("The receiver's check accepts the vector of the Standard Webhooks libraries, and nothing beside it")
    func signature() {
        // github.com/standard-webhooks/standard-webhooks, libraries/*/test: "sign function works".
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        var request = HTTPMessage(
            start: "POST / HTTP/1.1",
            headers: [
                ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"), ("webhook-timestamp", "1614265330"),
                ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ], body: Array(#"{"test": 2432232314}"#.utf8))
        #expect(Receiver.isSigned(request, secret: secret, now: 1_614_265_330))
        #expect(!Receiver.isSigned(request, secret: secret, now: 1_614_265_330 + 301))
        #expect(!Receiver.isSigned(request, secret: Receiver.newSecret(), now: 1_614_265_330))
        request.body.append(UInt8(ascii: " "))
        #expect(!Receiver.isSigned(request, secret: secret, now: 1_614_265_330))
    }

    @Test("A receiver says what came and does what its script says")
    func receiver() throws {
        let receiver = try Receiver { request in
            switch request.number {
            case 0: .status(500, headers: ["X-Test: 1"], body: "no")
            case 1: .drop
            case 2: .after(0.2, .ok)
            default: .hang
            }
        }
        let client = HTTPClient(port: receiver.port)
        let refused = try client.request("POST", "/hook", body: [1, 2, 3])
        #expect(refused.status == 500 && refused.text == "no" && refused["x-test"] == "1")
        #expect(throws: HarnessFailure.self) { try client.request("POST", "/hook") }
        #expect(try client.request("POST", "/hook").status == 204)
        #expect(receiver.received.map(\.answered) == [500, nil, 204])
        #expect(receiver.received[0].body == [1, 2, 3])
        #expect(!receiver.received[0].isVerified)
        #expect(receiver.connectionsMade == 2)
        #expect(!receiver.waitForAccepted(2, 0.1))
        Thread.detachNewThread { _ = try? HTTPClient(port: receiver.port).request("POST", "/hook") }
        #expect(receiver.wait { $0.count == 4 })
        receiver.stop()
        #expect(throws: HarnessFailure.self) { try Socket.connect(port: receiver.port) }
    }

    @Test("A child's output, its end by exit and by signal")
    func process() throws {
        let child = try ChildProcess(["sh", "-c", "echo out; echo err >&2; printf rest; exit 3"])
        #expect(child.waitForEnd(180) == .exited(3))
        #expect(child.output == ["out", "rest"])
        #expect(child.errors == ["err"])
        let endless = try ChildProcess(["sleep", "600"])
        #expect(endless.waitForEnd(0.05) == nil)
        endless.signal(SIGKILL)
        #expect(endless.waitForEnd(180) == .signalled(SIGKILL))
    }

    @Test("A directory goes, and with it what was started on it")
    func scratch() throws {
        let path: String
        let left: ChildProcess
        do {
            let directory = try ScratchDirectory()
            path = directory.path
            left = try ChildProcess(["tail", "-f", try directory.write("file", "text\n")])
            #expect(left.waitForOutput(180) { $0 == "text" } != nil)
            withExtendedLifetime(directory) {}
        }
        #expect(left.waitForEnd(180) == .signalled(SIGKILL))
        #expect(!FileManager.default.fileExists(atPath: path))
    }
}
