/// What systemd has of one unit.
package struct UnitFacts: Sendable, Hashable {
    package let id: String
    /// `loaded`, `not-found`, `masked`, `bad-setting`, `error`.
    package let loadState: String
    package let activeState: String
    package let subState: String
    /// `enabled`, `disabled`, `static`; empty: there is no file.
    package let fileState: String
    package let fragment: String
    package let dropIns: [String]
    /// Its files were changed since systemd read them.
    package let needsReload: Bool
    package let restarts: Int
    /// `success`, or how it failed last.
    package let result: String
    /// Empty: root.
    package let user: String
    /// Names or numbers of `Group=` and `SupplementaryGroups=`.
    package let groups: [String]
    /// 0: it does not run.
    package let process: Int
    /// What `ListenStream=` and its kin have: `127.0.0.1:8080 (Stream)`.
    package let listens: [String]
    /// It sees no home directories.
    package let hidesHome: Bool
    /// Its /tmp and /var/tmp are its own.
    package let hasOwnTemporaryFiles: Bool
    /// Where alone it may write (`ProtectSystem=strict`); nil: wherever its user may.
    let writable: [String]?

    package var isLoaded: Bool { loadState == "loaded" }
    package var isActive: Bool { activeState == "active" || activeState == "reloading" }

    /// Whether its settings let it write to a folder.
    package func mayWrite(to folder: String) -> Bool {
        writable?.contains { folder == $0 || folder.hasPrefix($0 + "/") } ?? true
    }

    /// The properties to ask systemd for, as `systemctl show -p` takes them.
    package static let properties =
        "Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,NeedDaemonReload,Listen,NRestarts,"
        + "Result,User,Group,SupplementaryGroups,MainPID,ProtectHome,PrivateTmp,ProtectSystem,ReadWritePaths,BindPaths,"
        + "StateDirectory,CacheDirectory,LogsDirectory,RuntimeDirectory"

    /// Reads the output of `systemctl show UNIT… -p …`: lines KEY=VALUE, a blank line between two units. A key that has
    /// several values comes once for each. Lines of another form are left out.
    package static func read(_ output: String) -> [UnitFacts] {
        var units: [[String: [String]]] = [[:]]
        for line in output.split(separator: "\n", omittingEmptySubsequences: false) {
            guard let equals = line.firstIndex(of: "=") else {
                if line.isEmpty { units.append([:]) }
                continue
            }
            let (key, value) = (String(line[..<equals]), String(line[line.index(after: equals)...]))
            units[units.count - 1][key, default: []].append(value)
        }
        return units.filter { $0["Id"] != nil }.map(UnitFacts.init(values:))
    }

    private init(values: [String: [String]]) {
        func value(_ key: String) -> String { values[key]?.last ?? "" }
        id = value("Id")
        loadState = value("LoadState")
        activeState = value("ActiveState")
        subState = value("SubState")
        fileState = value("UnitFileState")
        fragment = value("FragmentPath")
        dropIns = value("DropInPaths").split(separator: " ").map(String.init)
        needsReload = value("NeedDaemonReload") == "yes"
        restarts = Int(value("NRestarts")) ?? 0
        result = value("Result")
        user = value("User")
        groups =
            [value("Group")].filter { !$0.isEmpty }
            + (values["SupplementaryGroups"] ?? []).flatMap { $0.split(separator: " ").map(String.init) }
        process = Int(value("MainPID")) ?? 0
        listens = (values["Listen"] ?? []).filter { !$0.isEmpty }
        hidesHome = ["yes", "tmpfs"].contains(value("ProtectHome"))
        hasOwnTemporaryFiles = ["yes", "connected", "disconnected"].contains(value("PrivateTmp"))
        writable = value("ProtectSystem") == "strict" ? Self.writable(value) : nil
    }

    /// What `ProtectSystem=strict` leaves a unit to write to (systemd.exec(5)).
    private static func writable(_ value: (_ key: String) -> String) -> [String] {
        func list(_ key: String) -> [String] { value(key).split(separator: " ").map(String.init) }
        let roots = [
            ("StateDirectory", "/var/lib/"), ("CacheDirectory", "/var/cache/"), ("LogsDirectory", "/var/log/"),
            ("RuntimeDirectory", "/run/"),
        ]
        let own = roots.flatMap { key, root in list(key).map { root + $0 } }
        // "-": it need not be there; "+": it is below RootDirectory=.
        let named = list("ReadWritePaths").map { path in String(path.drop { $0 == "-" || $0 == "+" }) }
        // SOURCE:DESTINATION:OPTIONS
        let bound = list("BindPaths").compactMap { $0.split(separator: ":").dropFirst().first.map(String.init) }
        let temporary = value("PrivateTmp") == "no" ? [] : ["/tmp", "/var/tmp"]
        return own + named + bound + temporary
    }
}
