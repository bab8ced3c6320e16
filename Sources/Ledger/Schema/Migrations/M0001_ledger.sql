-- The ledger: what came, what it means, what is owed to whom. Stored times are the database's; event times
-- (…_ms, milliseconds since 1970) are the vendor's and order facts. Identities are uuid columns that hold the first
-- 16 bytes of a SHA-256 over their parts; the parts themselves stand beside them as text.

-- One running daemon each. A delivery leased by a daemon that is not in here is nobody's: it is taken over.
CREATE TABLE daemons (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Boot and process namespace: where the process id means something.
    place text NOT NULL,
    process_id integer NOT NULL,
    -- Start of the process in clock ticks since boot: a process id alone is used again.
    process_started bigint NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);

CREATE TABLE integrations (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    paused_at timestamptz,
    pause_reason text
);

CREATE SEQUENCE event_ids;
CREATE SEQUENCE message_ids;
CREATE SEQUENCE delivery_ids;

-- The memory of what has been accepted: one narrow row an event, kept at least as long as any source retries.
CREATE TABLE identities (
    key uuid PRIMARY KEY,
    event bigint NOT NULL,
    body_digest uuid NOT NULL,
    -- The same identity came again with other bytes, and the journal has said so.
    differs boolean NOT NULL DEFAULT false,
    received_at timestamptz NOT NULL DEFAULT now()
);

-- One accepted webhook, its body byte for byte as it was signed.
CREATE TABLE events (
    id bigint PRIMARY KEY,
    key uuid NOT NULL,
    source text NOT NULL,
    app text NOT NULL,
    environment text NOT NULL,
    vendor_event_id text,
    name text NOT NULL,
    type text NOT NULL,
    holder text NOT NULL,
    occurred_at_ms bigint NOT NULL,
    purchase uuid,
    store_transaction_id text,
    received_at timestamptz NOT NULL DEFAULT now(),
    body bytea NOT NULL
);
CREATE INDEX events_transaction ON events (store_transaction_id, id) WHERE store_transaction_id IS NOT NULL;
CREATE INDEX events_purchase ON events (purchase, id) WHERE purchase IS NOT NULL;

-- Authentic but without a readable envelope: kept, acknowledged, looked at by a person.
CREATE TABLE quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text NOT NULL,
    reason text NOT NULL,
    body_digest uuid NOT NULL,
    body bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source, body_digest)
);

CREATE TABLE purchases (
    id uuid PRIMARY KEY,
    source text NOT NULL,
    app text NOT NULL,
    environment text NOT NULL,
    store text NOT NULL,
    key text NOT NULL,
    kind text NOT NULL,
    product text,
    plan text,
    subscription_id text,
    -- The event that product, plan and subscription_id are as of.
    as_of_ms bigint NOT NULL,
    -- What TransferResolution knows, in its own text form.
    state bytea NOT NULL
) WITH (fillfactor = 70);

-- UNIQUE (source, app, environment, store, store_transaction_id, purchase): the purchase's id covers the first four.
CREATE TABLE transactions (
    store_transaction_id text NOT NULL,
    purchase uuid NOT NULL,
    store_original_transaction_id text,
    purchased_at_ms bigint,
    effective_next_renewal_at_ms bigint,
    offer_type text,
    status text,
    -- The newest event wins; the event's key breaks a tie, so that arrival order never does.
    as_of_ms bigint NOT NULL,
    as_of_event uuid NOT NULL,
    PRIMARY KEY (store_transaction_id, purchase)
) WITH (fillfactor = 80);

CREATE TABLE entitlements (
    holder text NOT NULL,
    purchase uuid NOT NULL,
    active boolean NOT NULL,
    as_of_ms bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (holder, purchase)
) WITH (fillfactor = 80);
CREATE INDEX entitlements_purchase ON entitlements (purchase);

CREATE TABLE transfers (
    id uuid PRIMARY KEY,
    purchase uuid NOT NULL,
    from_holder text NOT NULL,
    to_holder text NOT NULL,
    -- Counted from 1 per purchase and pair of holders.
    ordinal integer NOT NULL,
    event bigint NOT NULL,
    told_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (purchase, from_holder, to_holder, ordinal)
);

-- Which user an anonymous holder turned out to be (invariant I5).
CREATE TABLE holder_links (
    source text NOT NULL,
    app text NOT NULL,
    environment text NOT NULL,
    anonymous_user_id text NOT NULL,
    user_id text NOT NULL,
    as_of_ms bigint NOT NULL,
    PRIMARY KEY (anonymous_user_id, source, app, environment)
);

-- One outbound statement. What a receiver gets is envelope + the event's body (format "standard"), or the body
-- itself or its derived form (format "source").
CREATE TABLE messages (
    id bigint PRIMARY KEY,
    -- `webhook-id` is msg_ and its 32 hex digits.
    key uuid NOT NULL UNIQUE,
    event bigint NOT NULL,
    type text NOT NULL,
    transfer uuid,
    envelope bytea NOT NULL,
    derived_body bytea,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX messages_event ON messages (event);

-- What is still to do, and nothing else: a settled delivery leaves. Claims, settles and rescues keep off every
-- other table.
CREATE TABLE deliveries (
    id bigint PRIMARY KEY,
    message bigint NOT NULL,
    integration integer NOT NULL,
    purchase uuid,
    attempts smallint NOT NULL DEFAULT 0,
    -- Behind an unsettled delivery of the same purchase (order = "purchase"): released by its settling.
    blocked boolean NOT NULL DEFAULT false,
    leased_by bigint,
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2
);
CREATE INDEX deliveries_due ON deliveries (integration, due_at, id) WHERE leased_by IS NULL AND NOT blocked;
CREATE INDEX deliveries_order ON deliveries (purchase, integration, id);

-- What has been tried, a partition a day, dropped by day.
CREATE TABLE attempts (
    at timestamptz NOT NULL DEFAULT now(),
    delivery bigint NOT NULL,
    message bigint NOT NULL,
    integration integer NOT NULL,
    attempt smallint NOT NULL,
    outcome text NOT NULL,
    http_status smallint,
    latency_ms integer NOT NULL,
    failure text
) PARTITION BY RANGE (at);
CREATE INDEX attempts_message ON attempts (message);
-- Takes what no day's partition takes, so that a missed upkeep loses nothing.
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;

-- Deliveries given up: their last error stays with them, longer than attempts are kept.
CREATE TABLE dead_letters (
    delivery bigint PRIMARY KEY,
    message bigint NOT NULL,
    integration integer NOT NULL,
    purchase uuid,
    attempts smallint NOT NULL,
    reason text NOT NULL,
    http_status smallint,
    created_at timestamptz NOT NULL,
    died_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dead_letters_integration ON dead_letters (integration, died_at);
CREATE INDEX dead_letters_message ON dead_letters (message);
