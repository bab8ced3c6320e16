import Linux
import Testing

@Suite("Threads that wake each other")
struct WakeUpTests {
    @Test("What is raised before or during a wait ends it, once")
    func raised() throws {
        let wakeUp = try WakeUp()
        #expect(!wakeUp.lower() && !wakeUp.wait(atMost: .zero) && !wakeUp.wait(atMost: .milliseconds(1)))
        wakeUp.raise()
        wakeUp.raise()
        #expect(wakeUp.wait(atMost: .zero))
        #expect(!wakeUp.lower())
        try DetachedThread.start { wakeUp.raise() }
        #expect(wakeUp.wait(atMost: .seconds(600)))
        try DetachedThread.start { wakeUp.raise() }
        wakeUp.wait()
        #expect(!wakeUp.lower())
    }
}
