import Configuration
import HTTPClient
import HTTPServer
import Postgres
import Vocabulary

extension LibraryChecks {
    /// Reads values as `serve` does, so that what it could not start by is an error in the file, with its place.
    static let ofDaemon = LibraryChecks(
        connectionString: { text in
            do throws(ConnectionStringError) {
                _ = try DatabaseAccess.settings(text, statementTimeout: Limits.statementTimeout)
                return nil
            } catch {
                return error.reason
            }
        },
        certificate: { files in
            do throws(HTTPServerError) {
                _ = try files.load()
                return nil
            } catch {
                if case .tls(_, let reason) = error { return reason }
                return "\(error)"
            }
        },
        authorities: { path in
            do throws(EndpointTrust.Unusable) {
                _ = try EndpointTrust.authorities(file: path)
                return nil
            } catch {
                return error.reason
            }
        })
}
