import Testing
import Vocabulary

@testable import API

/// Oracle: the whole list; a page is a part of it, and the pages together are all of it, once each.
@Suite("Pages of version 3", .serialized)
struct Version3PageTests {
    @Test("Pages without gaps or repeats, on each the active ones first")
    func pages() async throws {
        try await TestService.run { service in
            let install = Holder.anonymous("A")
            /// Bought, and ended where it is not active.
            func record(_ number: Int, _ product: String, isActive: Bool) async {
                let purchase = "p\(number)"
                await service.record(
                    .stating(of: install, purchase: purchase, product: product, source: "shared"))
                guard !isActive else { return }
                await service.record(
                    .stating(
                        of: install, kind: .loss, at: at(1), purchase: purchase, product: product, source: "shared",
                        until: at(1)))
            }
            for number in 0..<25 { await record(number, "product\(number)", isActive: number % 5 == 4) }
            // Three purchases of one product: the one that is held counts, however the purchases are ordered.
            for number in 100..<103 { await record(number, "twice", isActive: number == 101) }
            let whole = await service.get("/v3/users/A/entitlements")
            #expect(whole.status == 200 && whole.next == nil && whole.data.count == 26)
            let active = ["product14", "product19", "product24", "product4", "product9", "twice"]
            #expect(whole.column("id").prefix(6).sorted() == active)
            #expect(whole.column("active") == Array(repeating: "1", count: 6) + Array(repeating: "0", count: 20))
            for limit in [1, 4, 6, 25, 26, 1_000] {
                var (ids, query): ([String], String?) = ([], "")
                while let cursor = query {
                    let page = await service.get("/v3/users/A/entitlements?limit=\(limit)\(cursor)")
                    #expect(page.status == 200 && page.data.count <= limit)
                    #expect(page.column("active") == page.column("active").sorted(by: >))
                    ids += page.column("id")
                    query = page.next.map { "&cursor=" + $0 }
                    guard ids.count <= 26 else { break }
                }
                #expect(ids.sorted() == whole.column("id").sorted(), "\(limit)")
            }
            for query in ["limit=0", "limit=1001", "cursor=x", "active=true"] {
                #expect(await service.get("/v3/users/A/entitlements?" + query).status == 400, "\(query)")
            }
        }
    }

    @Test("What becomes active between two pages is on one of them all the same")
    func changed() async throws {
        try await TestService.run { service in
            let install = Holder.anonymous("A")
            for number in 0..<6 {
                let (purchase, product) = ("p\(number)", "product\(number)")
                await service.record(
                    .stating(of: install, purchase: purchase, product: product, source: "shared"),
                    .stating(
                        of: install, kind: .loss, at: at(1), purchase: purchase, product: product, source: "shared",
                        until: at(1)))
            }
            let path = "/v3/users/A/entitlements"
            let first = await service.get(path + "?limit=3")
            let shown = first.column("id")
            let others = Set((0..<6).map { "product\($0)" }).subtracting(shown)
            for product in others {
                await service.record(
                    .stating(
                        of: install, at: at(2), purchase: "p" + product.suffix(1), transaction: "new-" + product,
                        product: product, source: "shared"))
            }
            let rest = await service.get(path + "?limit=3&cursor=" + (first.next ?? "none"))
            #expect(Set(rest.column("id")) == others && rest.column("active") == ["1", "1", "1"])
            #expect(shown.count == 3 && rest.next == nil)
        }
    }
}
