-- What a store's API answered about an event, beside its body: whoever reads the body again reads it, too, and asks
-- nothing. Null: nothing was asked.
ALTER TABLE events ADD COLUMN answer bytea;
ALTER TABLE quarantine ADD COLUMN answer bytea;

-- What is known of the tokens by which a store names purchases. A change of plan makes a new token of the same purchase:
-- read before the API is asked about the next event, written in the transaction that records it.
CREATE TABLE purchase_tokens (
    source text COLLATE "C" NOT NULL,
    -- The first 16 bytes of its SHA-256: the token itself is only in bodies.
    token uuid NOT NULL,
    -- The key of its purchase, named after the first token. What is written first holds for good.
    first text COLLATE "C" NOT NULL,
    -- Null: not known.
    environment text COLLATE "C",
    -- A newer token has taken its place.
    is_replaced boolean NOT NULL,
    PRIMARY KEY (source, token)
);
CREATE INDEX purchase_tokens_first ON purchase_tokens (first);
