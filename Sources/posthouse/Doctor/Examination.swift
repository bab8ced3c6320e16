import Configuration
import Doctor
import Glibc
import Linux
import Spool
import Vocabulary

/// Gathers the facts for `posthouse doctor`. Each part is bounded and by itself: one that fails or hangs says so and
/// takes nothing from the others.
struct Examination {
    /// For each question to the machine, to systemd, to a receiver.
    static let limit: Duration = .seconds(5)
    /// For all questions to the database, each of which has the limit above as its time-out.
    private static let databaseLimit: Duration = .seconds(20)
    /// For all receivers, of which only so many are asked at a time.
    private static let certificatesLimit: Duration = .seconds(60)
    private static let releaseBytesMax = 64 << 10

    /// The configuration file, absolute.
    let path: String

    init(path: String) { self.path = Self.absolute(path) }

    /// In the order of the page.
    func findings() async -> [DoctorFinding] {
        let outcome = ConfigurationFile.load(path: path, purpose: .check)
        let units = await Self.units()
        let service = (try? units.get()).flatMap { Self.service($0) }
        async let unit = ofSystemd(outcome, units)
        async let disk = Self.bounded(.disk, within: Self.limit) { Self.ofDisk(outcome) }
        async let spool = Self.bounded(.spool, within: Self.limit) { Self.ofSpool(outcome, of: self.path, service) }
        async let versions = Self.bounded(.versions, within: Self.limit) { await Self.ofVersions() }
        async let database = ofDatabase(outcome)
        async let certificates = ofCertificates(outcome)
        let parts = await [unit, disk, spool, database, certificates, versions]
        return DoctorPage.ordered(ConfigurationFindings.of(outcome, path: path) + parts.flatMap { $0 })
    }

    // MARK: systemd and what it hands over

    /// nil: no systemd runs here.
    private static func units() async -> Result<[UnitFacts]?, any Error> {
        do { return .success(try await UnitExamination.units()) } catch { return .failure(error) }
    }

    private static func service(_ units: [UnitFacts]) -> UnitFacts? {
        units.first { $0.id == UnitFindings.service && $0.isLoaded }
    }

    private func ofSystemd(_ outcome: LoadOutcome, _ asked: Result<[UnitFacts]?, any Error>) async -> [DoctorFinding] {
        let units: [UnitFacts]?
        do {
            units = try asked.get()
        } catch {
            return [DoctorFinding(.unit, .unknown, "\(error)")]
        }
        let service = units.flatMap { Self.service($0) }
        var found = UnitFindings.of(units)
        if let service { found += await ofCredentials(outcome) + ofFiles(outcome, service) }
        if let server = outcome.configuration?.server {
            found += SocketFindings.of(
                units?.first { $0.id == UnitFindings.socket },
                configured: [server.listen, server.apiListen].compactMap { $0 })
        }
        return found
    }

    private func ofCredentials(_ outcome: LoadOutcome) async -> [DoctorFinding] {
        // A file that is no TOML names nothing: that is no reason to call a credential useless.
        let isRead = outcome.configuration != nil || outcome.outside != OutsideReferences()
        do {
            let loaded = try await UnitExamination.credentials()
            return await Self.bounded(.credentials, within: Self.limit) {
                CredentialFindings.of(
                    named: isRead ? outcome.outside.credentials : nil, files: outcome.outside.files, loaded: loaded,
                    status: Self.status)
            }
        } catch {
            return [DoctorFinding(.credentials, .unknown, "\(error)")]
        }
    }

    private func ofFiles(_ outcome: LoadOutcome, _ service: UnitFacts) async -> [DoctorFinding] {
        let paths = [path] + outcome.outside.files.map(Self.absolute)
        return await Self.bounded(.files, within: Self.limit) { Self.ofReading(paths, service) }
    }

    /// What the user of a unit cannot read.
    static func ofReading(_ paths: [String], _ service: UnitFacts) -> [DoctorFinding] {
        let name = service.user.isEmpty ? "root" : service.user
        guard let user = SystemUser.named(name) else {
            return [
                DoctorFinding(
                    .files, .wrong, "\(service.id) runs as the user \(name), whom this machine does not have",
                    do: "systemd-sysusers")
            ]
        }
        return ReadingFindings.of(paths, user: user.joining(service.groups), unit: service) { path in
            do throws(FileStatus.Failure) {
                return .success(try FileStatus.way(to: path))
            } catch {
                return .failure(error)
            }
        }
    }

    static func status(_ path: String) -> Result<FileStatus, FileStatus.Failure> {
        do throws(FileStatus.Failure) {
            return .success(try FileStatus.of(path))
        } catch {
            return .failure(error)
        }
    }

    // MARK: The machine

    private static func ofDisk(_ outcome: LoadOutcome) -> [DoctorFinding] {
        var directory: String?
        if let configuration = outcome.configuration {
            directory = configuration.database.usesPrivateCluster ? configuration.embedded.directory : nil
        } else {
            directory = ThisProcess.stateDirectory
        }
        guard let directory else { return DiskFindings.of(directory: nil, looked: "", space: nil) }
        // Before the first start it is not there yet.
        var looked = directory
        var space = DiskSpace.of(path: looked)
        // Another user's may be elsewhere.
        while space == nil, geteuid() == 0, let slash = looked.lastIndex(of: "/"), looked != "/" {
            looked = slash == looked.startIndex ? "/" : String(looked[..<slash])
            space = DiskSpace.of(path: looked)
        }
        return DiskFindings.of(directory: directory, looked: looked, space: space)
    }

    private static func ofSpool(
        _ outcome: LoadOutcome, of file: String, _ service: UnitFacts?
    ) -> [DoctorFinding] {
        guard let configuration = outcome.configuration else { return [] }
        let (state, directory) = (SpoolState(configuration, of: file), configuration.spool.directory)
        let disk = DiskSpace.of(path: directory)
        return SpoolFindings.of(
            SpoolFacts(
                directory: directory, bytesMax: configuration.spool.bytesMax,
                sources: configuration.sources.filter(\.spools).map(\.name), isVisible: state.isVisible,
                isWritable: service?.mayWrite(to: directory) ?? true, webhooks: state.files.count,
                unreadable: state.unreadable.count,
                oldestMilliseconds: state.oldestAt.map { max(0, ThisProcess.now().milliseconds - $0.milliseconds) },
                unconfigured: state.withoutSource(configuration.sources.map(\.name)).map(\.source),
                damaged: state.damaged.count, disk: disk, headroomBytes: disk.map(Spool.headroom) ?? 0,
                former: state.former.map(\.remark)))
    }

    private static func ofVersions() async -> [DoctorFinding] {
        let release = try? SecretReader.system.readFile("/etc/os-release", releaseBytesMax).get()
        return VersionFindings.of(
            program: Posthouse.version, systemd: await UnitExamination.version(),
            release: release.map { String(decoding: $0.bytes, as: UTF8.self) })
    }

    // MARK: Database and certificates

    private func ofDatabase(_ outcome: LoadOutcome) async -> [DoctorFinding] {
        guard let configuration = outcome.configuration else {
            return [DoctorFinding(.database, .unknown, "which database it is cannot be read in the configuration")]
        }
        let examination = DatabaseExamination(configuration: configuration, path: path)
        return await Self.bounded(.database, within: Self.databaseLimit) { await examination.findings() }
    }

    private func ofCertificates(_ outcome: LoadOutcome) async -> [DoctorFinding] {
        guard let configuration = outcome.configuration else { return [] }
        let examination = CertificateExamination(configuration: configuration, now: ThisProcess.now())
        return await Self.bounded(.certificates, within: Self.certificatesLimit) { await examination.findings() }
    }

    private static func bounded(
        _ area: DoctorFinding.Area, within limit: Duration, _ body: @escaping @Sendable () async -> [DoctorFinding]
    ) async -> [DoctorFinding] {
        await TimeLimit.value(of: Task { await body() }, within: limit)
            ?? [DoctorFinding(area, .unknown, "nothing was found out within \(limit.components.seconds) s")]
    }

    /// A relative path counts from the working directory.
    static func absolute(_ path: String) -> String {
        SecretLocation.absolute(path, from: SecretLocationOptions.workingDirectory)
    }
}
