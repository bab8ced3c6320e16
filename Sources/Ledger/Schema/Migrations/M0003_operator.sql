-- What those who run the relay ask of the ledger, and what they do to it.

-- What `posthouse status` asks of the last minute and of the last error. Both cost next to nothing to write: the first
-- holds one entry per range of pages, the second only what was not accepted.
CREATE INDEX attempts_at ON attempts USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX attempts_failed ON attempts (integration, at) WHERE outcome <> 'accepted';

-- A circuit breaker is open while it has a row here. Whoever deletes the row has closed it.
CREATE TABLE breakers (
    integration integer PRIMARY KEY,
    opened_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    -- One daemon at a time sends a probe: the one that could move `next_probe_at`.
    next_probe_at timestamptz NOT NULL,
    probed_by bigint,
    probed_at timestamptz
);

-- `rate`: the time of the first request that no daemon has reserved. Written some times a second, and always in place.
CREATE TABLE rate_slots (
    integration integer PRIMARY KEY,
    next_at timestamptz NOT NULL
) WITH (fillfactor = 10);

-- What was erased (`posthouse erase`) is remembered by a salted hash alone, so that a late duplicate is still one.
-- Without the salt nobody can tell from a hash whose event it was. One row; 244 random bits.
CREATE TABLE erasure_salt (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    salt bytea NOT NULL
);
INSERT INTO erasure_salt (salt)
VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));
CREATE TABLE erased_events (
    digest bytea PRIMARY KEY,
    erased_at timestamptz NOT NULL DEFAULT now()
);

-- Private clusters whose ledger was moved into this database (`posthouse migrate --from-embedded`), written with the
-- ledger's own rows: so a move that was cut short right after its commit is known for done.
CREATE TABLE moves (
    -- PostgreSQL's own number of the cluster.
    cluster bigint PRIMARY KEY,
    moved_at timestamptz NOT NULL DEFAULT now()
);

-- Since when an integration is known: how far back `posthouse backfill` knows what it has had. Nobody knows of those that
-- were there before this migration.
ALTER TABLE integrations ADD COLUMN created_at timestamptz NOT NULL DEFAULT '-infinity';
ALTER TABLE integrations ALTER COLUMN created_at SET DEFAULT now();
