import Configuration
import Glibc
import Observing
import Systemd
import Vocabulary

// What a running daemon does at a signal, and what ends it.

extension ServeCommand {
    /// What ends a running daemon.
    enum End: Sendable {
        case signal(Int32)
        /// It must be started anew.
        case failure(reason: String)
    }

    private enum ServeEvent: Sendable {
        case signal(Int32)
        case failure(reason: String)
        case prepared(Result<Reloader.Prepared, OperatorError>)
    }

    /// Reloads at each SIGHUP, one after the other; returns what ends the daemon. Preparing a reload may wait for a
    /// database that hangs, so it runs in a task of its own and is abandoned when the daemon is to end.
    func handle(_ signals: AsyncStream<Int32>, _ relay: Relay) async -> End {
        let (events, event) = AsyncStream<ServeEvent>.makeStream()
        let forwarding = Task {
            for await signal in signals { event.yield(.signal(signal)) }
        }
        defer { forwarding.cancel() }
        let watching = Task {
            for await reason in relay.reasonsToEnd { event.yield(.failure(reason: reason)) }
        }
        defer { watching.cancel() }
        func beginReload() {
            _ = Notify.reloading()
            Task { [path = file.path, reloader = relay.reloader] in
                event.yield(.prepared(await Self.prepare(path, reloader)))
            }
        }
        var isReloading = false
        var isWantedAgain = false
        for await next in events {
            switch next {
            case .signal(SIGHUP) where isReloading: isWantedAgain = true
            case .signal(SIGHUP):
                isReloading = true
                beginReload()
            case .signal(let end): return .signal(end)
            case .failure(let reason): return .failure(reason: reason)
            case .prepared(let outcome):
                _ = Notify.ready(status: await conclude(outcome, relay))
                isReloading = isWantedAgain
                isWantedAgain = false
                if isReloading { beginReload() }
            }
        }
        return .signal(SIGTERM)
    }

    private static func prepare(
        _ path: String, _ reloader: Reloader
    ) async -> Result<Reloader.Prepared, OperatorError> {
        let outcome = ConfigurationFile.load(path: path, purpose: .serve, libraries: .ofDaemon)
        guard let next = outcome.configuration, outcome.errors.isEmpty else {
            return .failure(OperatorError(outcome.errorLine))
        }
        do {
            return .success(try await reloader.prepare(next))
        } catch {
            return .failure(OperatorError("\(error)"))
        }
    }

    /// Adopts the reload or logs its refusal; returns the text for `systemctl status`.
    private func conclude(_ outcome: Result<Reloader.Prepared, OperatorError>, _ relay: Relay) async -> String {
        switch outcome {
        case .success(let prepared):
            let reload = await relay.reloader.adopt(prepared)
            relay.observe(.reloaded(changes: reload.summary))
            for warning in reload.warnings { relay.observe(.warning(warning)) }
            return "serving \(relay.listens); reloaded: \(reload.summary)"
        case .failure(let refusal):
            relay.observe(.reloadRefused(reason: refusal.description))
            relay.reloader.live.refused(refusal.description)
            return SelfCheck(relay: relay).status
        }
    }
}
