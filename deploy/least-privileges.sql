-- Takes from the daemon's role what it can do without in its database. As PostgreSQL's superuser, while no daemon runs:
--
--   psql -d posthouse -1 -v ON_ERROR_STOP=1 -f least-privileges.sql
--
-- The role "posthouse" must have made the schema (by "posthouse migrate" or a first start). From then on it reads and
-- writes rows; the tables are those of "posthouse_owner", as whom nobody logs in. Three tables stay its own: attempts,
-- events and messages have partitions, and PostgreSQL lets only the owner of a partitioned table add or drop one.
--
-- An update of Posthouse that brings migrations needs the owner's rights for a moment. Before its first start:
--
--   GRANT posthouse_owner TO posthouse;
--
-- then, as the role posthouse, "posthouse migrate", and this file again: it can be run as often as you like. Indexes that
-- daemons of the version before still need are named by "posthouse migrate": do the same again once those have ended,
-- and an hour after the first time.

SELECT 'CREATE ROLE posthouse_owner NOLOGIN'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'posthouse_owner') \gexec

-- Only where the role is a member: PostgreSQL warns of what there is not to revoke.
SELECT 'REVOKE posthouse_owner FROM posthouse'
WHERE EXISTS (SELECT FROM pg_auth_members
              WHERE roleid = 'posthouse_owner'::regrole AND member = 'posthouse'::regrole) \gexec

REASSIGN OWNED BY posthouse TO posthouse_owner;

GRANT USAGE, CREATE ON SCHEMA public TO posthouse;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO posthouse;
REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM posthouse;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO posthouse;
-- A new period moves them on.
GRANT UPDATE ON SEQUENCE event_ids, message_ids TO posthouse;

SELECT format('ALTER TABLE %s OWNER TO posthouse', t.relid::regclass)
FROM pg_class c CROSS JOIN LATERAL pg_partition_tree(c.oid) AS t
WHERE c.relkind = 'p' AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace \gexec
