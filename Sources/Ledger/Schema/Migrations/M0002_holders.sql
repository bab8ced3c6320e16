-- Holders beyond one purchase: logins, sessions, restores, transfers that name no purchase; and what the app's backend
-- asks for.

-- What was stated of a holder's purchases as a whole. Each row is applied to the purchases that the subject holds at
-- that time, to those included whose own webhooks come later.
CREATE TABLE holder_changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text NOT NULL,
    app text NOT NULL,
    environment text NOT NULL,
    -- The holder (`user:…`, `anon:…`) or the store transaction (`txn:…`) that it is about.
    subject text NOT NULL,
    -- native, login, share, transfer, copy.
    kind text NOT NULL,
    -- Who holds from then on; the second where an install and its identity do.
    target text NOT NULL,
    second_target text,
    at_ms bigint NOT NULL,
    -- The event that stated it.
    event bigint NOT NULL
);
CREATE INDEX holder_changes_subject ON holder_changes (subject, source, app, environment);

-- A link may end: by a logout (nobody), or by its own time (a session).
ALTER TABLE holder_links ALTER COLUMN user_id DROP NOT NULL, ADD COLUMN until_ms bigint;
CREATE INDEX holder_links_user ON holder_links (user_id) WHERE user_id IS NOT NULL;

-- Which install identified as this identity first, ever: that one shared what it held.
CREATE TABLE install_identities (
    source text NOT NULL,
    app text NOT NULL,
    environment text NOT NULL,
    identity text NOT NULL,
    install text NOT NULL,
    event bigint NOT NULL,
    linked_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (identity, source, app, environment)
);
CREATE INDEX install_identities_install ON install_identities (install, source, app, environment);

-- Installs that were registered by name; others are known by their webhooks alone.
CREATE TABLE installs (
    source text NOT NULL,
    app text NOT NULL,
    environment text NOT NULL,
    install text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (install, source, app, environment)
);

-- The event that an entitlement is as of: why it is as it is. Unknown for rows written before this migration.
ALTER TABLE entitlements ADD COLUMN event bigint;

-- A holder's history, newest first.
CREATE INDEX events_holder ON events (holder, id);

-- A restore names a purchase by its key or by any of its transactions.
CREATE INDEX purchases_key ON purchases (key);

-- Of a transfer whose event names no purchase: the purchase's newest transaction.
ALTER TABLE transfers ADD COLUMN store_transaction_id text;

-- What passed from and to a holder, newest first.
CREATE INDEX transfers_from ON transfers (from_holder, event);
CREATE INDEX transfers_to ON transfers (to_holder, event);

-- All transactions of a purchase, those included whose events are not kept any more: its newest, and whether an offer
-- was ever used.
CREATE INDEX transactions_purchase ON transactions (purchase);

-- Which sources were ever served. A source's name is part of every identity: renaming one makes all of its purchases
-- new, and `posthouse check` warns of that.
CREATE TABLE source_names (name text PRIMARY KEY);
INSERT INTO source_names SELECT DISTINCT source FROM purchases;
