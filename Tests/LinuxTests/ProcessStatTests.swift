import Glibc
import Linux
import Testing

@Suite("A process as /proc shows it")
struct ProcessStatTests {
    /// Oracle: proc(5).
    @Test("A name that holds parentheses and fields is read as a name")
    func hostileNames() throws {
        let rest = " S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1\n"
        let stat = try #require(ProcessStat(parsing: "42 (a) Z (b)\(rest)"))
        #expect(stat.name == "a) Z (b" && stat.state == "S" && !stat.isDead)
        #expect(stat.number(4) == 1 && stat.number(8) == -1 && stat.number(22) == 98_765)
        #expect(stat.number(24) == 1 && stat.number(25) as Int? == nil && stat.number(1) as Int? == nil)
        #expect(ProcessStat(parsing: "42 (a) Z 1")?.isDead == true)
        for text in ["", "42 (x", "42 )x(", "42 (x)"] { #expect(ProcessStat(parsing: text) == nil) }
    }

    @Test("This process is found, and one that does not exist is not")
    func processes() throws {
        let own = try #require(ProcessStat(of: "self"))
        #expect(own.number(4) == getppid() && !own.isDead)
        #expect(own.name == ProcessStat(of: "\(getpid())")?.name)
        #expect(ProcessStat(of: "0") == nil)
    }
}
