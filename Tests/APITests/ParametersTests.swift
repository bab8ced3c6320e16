import Ledger
import Testing
import Vocabulary

@testable import API

/// Oracle: the contract's words about parameters, and RFC 3986.
@Suite("Query parameters")
struct ParametersTests {
    private func fault(_ query: String, _ operation: APIOperation = .readEntitlements) -> String? {
        do throws(APIFailure) {
            let parameters = try Parameters(query, of: operation)
            _ = try parameters.subject(of: operation)
            _ = (try parameters.isActive, try parameters.limit, try parameters.cursor, try parameters.offer)
            _ = try parameters.identifier(.environment)
            _ = try parameters.identifier(.source)
            if operation == .readEligibility { _ = try parameters.groups }
            return nil
        } catch {
            return error.status == 400 && error.code == .invalidParameter ? error.message : "\(error.status)"
        }
    }

    @Test(
        "Understood",
        arguments: [
            "user_id=a", "install=a&limit=1", "anonymous_user_id=a&limit=1000&active=true", "user_id=a&active=false",
            "&user_id=a&&", "user_id=a%26b%3D", "user_id=a=b", "%75ser_id=a", "user_id=a&environment=SANDBOX&source=s",
            "user_id=a&cursor=" + String(repeating: "f", count: 48),
        ])
    func understood(query: String) { #expect(fault(query) == nil) }

    @Test(
        "Refused, with the reason",
        arguments: [
            ("", "exactly one of"), ("user_id=a&install=b", "exactly one of"), ("user_id=", "user_id is empty"),
            ("user_id", "user_id is empty"), ("user_id=a&user_id=a", "user_id may be given once"),
            ("user_id=a&users=b", "unknown query parameter"), ("user_id=a&offer=introductory", "unknown query"),
            ("user_id=a&=b", "unknown query parameter"), ("user_id=%00", "NUL"), ("user_id=%f", "hex digits"),
            ("user_id=%C3%28", "UTF-8"), ("user_id=%ED%A0%80", "UTF-8"), ("%ff=a", "UTF-8"),
            ("user_id=a&limit=0", "limit"), ("user_id=a&limit=1001", "limit"), ("user_id=a&limit=+1", "limit"),
            ("user_id=a&limit=", "limit"), ("user_id=a&limit=1.0", "limit"),
            ("user_id=a&limit=99999999999999999999", "limit"), ("user_id=a&active=1", "active"),
            ("user_id=a&active=TRUE", "active"), ("user_id=a&cursor=x", "cursor"),
            ("user_id=a&cursor=" + String(repeating: "F", count: 48), "cursor"),
            ("user_id=a&cursor=+" + String(repeating: "0", count: 47), "cursor"),
            ("user_id=a&environment=", "environment is empty"), ("user_id=a&source=", "source is empty"),
            ("user_id=" + String(repeating: "é", count: 513), "longer than 1024 bytes"),
        ])
    func refused(query: String, reason: String) {
        #expect(fault(query)?.contains(reason) == true, "\(fault(query) ?? "nothing")")
    }

    @Test("Groups may be many, and each is an id")
    func groups() throws {
        let query = "user_id=a&group=b&group=c"
        #expect(try Parameters(query, of: .readEligibility).groups == ["b", "c"])
        #expect(fault("user_id=a", .readEligibility)?.contains("group is missing") == true)
        #expect(fault("user_id=a&group=", .readEligibility)?.contains("group is empty") == true)
        let many = String(repeating: "&group=g", count: 101)
        #expect(fault("user_id=a" + many, .readEligibility)?.contains("100 groups") == true)
        #expect(fault("user_id=a&group=b&offer=free", .readEligibility)?.contains("offer") == true)
    }

    @Test("A plus sign in a query is a blank, as forms write it")
    func plus() throws {
        #expect(try Parameters("user_id=a+b%2Bc", of: .readHistory).identifier(.userID) == "a b+c")
    }

    @Test("Ids keep every byte: two spellings of one letter stay two")
    func bytes() throws {
        let composed = try Parameters("user_id=%C3%A9", of: .readHistory).identifier(.userID)
        let decomposed = try Parameters("user_id=e%CC%81", of: .readHistory).identifier(.userID)
        #expect(composed.map { Array($0.utf8) } == [0xC3, 0xA9])
        #expect(decomposed.map { Array($0.utf8) } == [0x65, 0xCC, 0x81])
    }

    @Test("A cursor is what was written, at its ends, too")
    func cursors() {
        for number in [Int64.min, -1, 0, 1, Int64.max] {
            let cursor = LookupCursor(number: number, identifier: Identifier(high: .max, low: 5))
            #expect(LookupCursor(written: cursor.written) == cursor && cursor.written.utf8.count == 48)
        }
    }

    @Test("A number is seconds or milliseconds by its magnitude")
    func magnitudes() {
        #expect(Timestamp(secondsOrMilliseconds: 1_658_489_733).milliseconds == 1_658_489_733_000)
        #expect(Timestamp(secondsOrMilliseconds: 1_658_489_733_000).milliseconds == 1_658_489_733_000)
        for number in [Int64.max, .min] {
            #expect(!Timestamp.writable.contains(Timestamp(secondsOrMilliseconds: number)))
        }
        #expect(Timestamp(milliseconds: -1).wholeSeconds == -1 && Timestamp(milliseconds: 1_999).wholeSeconds == 1)
    }
}
