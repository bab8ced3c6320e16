import Foundation
import Testing

@testable import Linux

/// Oracle: /proc/self/fd and getrlimit(2). The limit itself stays as it is: other tests run in this process.
@Suite struct DescriptorsTests {
    @Test func enoughUntilTheReserveReachesTheFirstFree() throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let most = Int(clamping: limit.rlim_cur)
        #expect(Descriptors.shortage(reserve: 1) == nil)
        // Standard input, output and error are open.
        #expect(Descriptors.shortage(reserve: most - 1) == EMFILE)
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
        // Gaps below the highest number count as free: the bound is one of the descriptors that are there.
        #expect(Descriptors.shortage(reserve: most / 2) == (open > most / 2 ? EMFILE : nil))
    }
}
