-- What the daemon's role needs in its database, and no more. There are two ways.
--
-- 1. A role that owns one schema and nothing else, for a database that others use, too. Before the first start, as a role
-- that may create roles and schemas (a superuser, or the administrator of a managed PostgreSQL):
--
--   psql -d shop -1 -v ON_ERROR_STOP=1 -v role=posthouse -v owned_schema=posthouse -f least-privileges.sql
--
-- It makes the role, if it is not there, and the schema. Give the role its password (\password posthouse), where it needs
-- one, and let [database] schema name the schema. The role makes and changes its tables by itself, at updates, too.
--
-- 2. A role that does not own its tables, but for three of them. As PostgreSQL's superuser, while no daemon runs:
--
--   psql -d posthouse -1 -v ON_ERROR_STOP=1 -f least-privileges.sql
--
-- The role "posthouse" must have made the tables (by "posthouse migrate" or a first start). From then on it reads and
-- writes rows; the tables are those of "posthouse_owner", as whom nobody logs in. Three tables stay its own: attempts,
-- events and messages have partitions, and PostgreSQL lets only the owner of a partitioned table add or drop one.
-- Another role is named by -v role=NAME, the schema of [database] schema by -v schema=NAME.
--
-- An update of Posthouse that brings migrations needs the owner's rights for a moment. Before it is installed:
--
--   GRANT posthouse_owner TO posthouse;
--
-- then, as the role posthouse, the new version's "posthouse migrate" (posthouse-operate(7), "Upgrade"), and, while no
-- daemon runs, the new version's file of this name, which can be run as often as you like. Indexes that daemons of the
-- version before still need are named by "posthouse migrate": do the same again once those have ended, and an hour after
-- the first time.

\if :{?role}
\else
\set role posthouse
\endif
\if :{?schema}
\else
\set schema public
\endif
\set owner :role _owner

\if :{?owned_schema}

SELECT format('CREATE ROLE %I LOGIN', :'role')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec

-- Only a member of a role may make something that is the role's. Who is no superuser is one for that moment.
SELECT NOT pg_has_role(
    current_user, :'role',
    CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END) AS joins \gset
\if :joins
SELECT format('GRANT %I TO %I', :'role', current_user) \gexec
\endif

SELECT format('CREATE SCHEMA %I AUTHORIZATION %I', :'owned_schema', :'role')
WHERE NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = :'owned_schema') \gexec
SELECT format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), :'role')
WHERE NOT has_database_privilege(:'role', current_database(), 'CONNECT') \gexec

\if :joins
SELECT format('REVOKE %I FROM %I', :'role', current_user) \gexec
\endif

\else

SELECT format('CREATE ROLE %I NOLOGIN', :'owner')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'owner') \gexec

-- Only where the role is a member: PostgreSQL warns of what there is not to revoke.
SELECT format('REVOKE %I FROM %I', :'owner', :'role')
WHERE EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles o ON o.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
              WHERE o.rolname = :'owner' AND r.rolname = :'role') \gexec

-- Posthouse's own tables and sequences in the schema, each with the table that it is of: a partition is of its table, a
-- sequence of a column, too. What else is there is an app's, though it were the same role's, and stays as it is.
CREATE OR REPLACE TEMP VIEW own AS
SELECT c.relname AS name, c.relkind AS kind, c.relowner AS owned_by, root.oid = c.oid AS is_root, root.relname AS root,
       root.relkind AS root_kind
FROM pg_class c
LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i' AND c.relkind = 'S'
JOIN pg_class root ON root.oid = coalesce(d.refobjid, pg_partition_root(c.oid), c.oid)
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = :'schema') AND c.relkind IN ('r', 'p', 'S')
  AND root.relnamespace = c.relnamespace AND root.relname = ANY ('{
      access_versions, attempts, breakers, daemons, dead_letters, deliveries, delivery_ids, discards, entitlements,
      erased_events, erasure_salt, event_ids, events, holder_changes, holder_links, identities, install_identities,
      installs, integrations, message_ids, messages, moves, periods, purchase_ends, purchase_ends_missing,
      purchase_tokens, purchases, quarantine, rate_slots, schema_migrations, source_names, transactions, transfers
  }'::name[]);

-- Sequences of a column go with its table. Who owns the schema or the database could drop tables that are not its own.
SELECT format('ALTER %s %I.%I OWNER TO %I', CASE kind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, :'schema', name,
              :'owner')
FROM own
WHERE owned_by = (SELECT oid FROM pg_roles WHERE rolname = :'role') AND (kind <> 'S' OR is_root) \gexec
SELECT format('ALTER SCHEMA %I OWNER TO %I', nspname, :'owner') FROM pg_namespace
WHERE nspname = :'schema' AND nspowner = (SELECT oid FROM pg_roles WHERE rolname = :'role') \gexec
SELECT format('ALTER DATABASE %I OWNER TO %I', datname, :'owner') FROM pg_database
WHERE datname = current_database() AND datdba = (SELECT oid FROM pg_roles WHERE rolname = :'role') \gexec

GRANT USAGE, CREATE ON SCHEMA :"schema" TO :"role";
SELECT format('GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE %I.%I TO %I', :'schema', name, :'role')
FROM own WHERE kind <> 'S' \gexec
REVOKE INSERT, UPDATE, DELETE ON :"schema".schema_migrations FROM :"role";
-- UPDATE: a new period moves two of them on; so does a start, or a webhook, where one lags its table.
-- SELECT: for pg_dump, run as the role.
SELECT format('GRANT SELECT, USAGE, UPDATE ON SEQUENCE %I.%I TO %I', :'schema', name, :'role')
FROM own WHERE kind = 'S' \gexec

SELECT format('ALTER TABLE %I.%I OWNER TO %I', :'schema', name, :'role') FROM own WHERE root_kind = 'p' \gexec

\endif
