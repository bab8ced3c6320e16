internal import Glibc

/// The two roles of a private cluster. `Settings.superuser` owns the cluster and is for administration by hand;
/// `Settings.role` owns only the database and is the daemon's. A statement that an attacker could inject would run
/// without a superuser's powers: no programs, no files, no other database.
///
/// Both are let in at the socket by trust: whoever reaches it is the account that runs the server.
enum Roles {
    /// Single-user mode takes one statement a line.
    static let creation = """
        CREATE ROLE \(Settings.role) LOGIN
        CREATE DATABASE \(Settings.database) OWNER \(Settings.role)

        """

    /// Separates the roles of a cluster of an earlier version, whose one superuser was the daemon: that role is
    /// renamed, and an ordinary role takes its name and its tables. Each line can be run again.
    static let separation = [
        // A session cannot rename its own user, so it becomes another for that moment.
        """
        DO $$ DECLARE name text := '\(Settings.superuser)'; BEGIN
        IF (SELECT rolname FROM pg_roles WHERE oid = 10) <> '\(Settings.role)' THEN RETURN; END IF;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN name := '\(Settings.role)_' || name; END IF;
        CREATE ROLE posthouse_separation SUPERUSER;
        SET SESSION AUTHORIZATION posthouse_separation;
        EXECUTE format('ALTER ROLE \(Settings.role) RENAME TO %I', name);
        EXECUTE format('SET SESSION AUTHORIZATION %I', name);
        DROP ROLE posthouse_separation;
        CREATE ROLE \(Settings.role) LOGIN;
        END $$
        """,
        "ALTER DATABASE \(Settings.database) OWNER TO \(Settings.role)",
        "ALTER SCHEMA public OWNER TO pg_database_owner",
        // What belongs to a table (its indexes, the sequences of its columns) goes with it.
        """
        DO $$ DECLARE statement text; BEGIN
        FOR statement IN
        SELECT format('ALTER TABLE %s OWNER TO \(Settings.role)', c.oid::regclass)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relowner = 10 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        AND NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')))
        LOOP EXECUTE statement; END LOOP; END $$
        """,
    ].map { $0.split(separator: "\n").joined(separator: " ") + "\n" }.joined()

    /// Marks the cluster in `data` as one with two roles.
    static func mark(_ data: String, owner: Account) throws(ClusterError) {
        try Files.replace(data + "/" + markFile, with: "1\n", owner: owner)
        try Files.sync(directory: data)
    }

    /// Gives a cluster of an earlier version its two roles. Call it while no server runs on it.
    static func separate(_ paths: ClusterPaths, _ account: Account, _ binaries: Binaries) async throws(ClusterError) {
        guard Files.status(paths.data + "/" + markFile) == nil else { return }
        do throws(Tool.Failure) {
            try await run(separation, in: paths.data, database: Settings.database, account, binaries)
        } catch {
            if Task.isCancelled { throw .cancelled }
            if Tool.indicatesFullDisk(error.lines) { throw .diskFull(directory: paths.directory) }
            throw .rolesFailed(directory: paths.data, lines: error.lines)
        }
        try mark(paths.data, owner: account)
    }

    /// Runs statements, one a line, as the superuser, without a server. Stops at an error, which single-user mode does
    /// not do by itself.
    static func run(
        _ statements: String, in data: String, database: String, _ account: Account, _ binaries: Binaries
    ) async throws(Tool.Failure) {
        try await Tool.output(
            of: binaries.postgres, ["--single", "-D", data, "-c", "exit_on_error=on", database], input: statements,
            as: account)
    }

    private static let markFile = "posthouse.roles"
}
