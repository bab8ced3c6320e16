-- What became of each message, for everybody whom it was for.

-- The rows of the integrations that the message was for when it was recorded, and of those that a backfill gave it to,
-- with commas between; empty: nobody. Null: recorded before this column was there, or by an older version beside. As
-- text one integration takes two bytes, an array would take 25, most of it header. Most rows grow by 8 more: the ninth
-- column of a row with nulls takes another byte of their bitmap, and columns begin at multiples of eight behind it.
ALTER TABLE messages ADD COLUMN integrations text;

-- Deliveries that somebody gave up for good: their dead letter was thrown away, or they were of an erased person whose
-- message another receiver was still getting. Kept as long as attempts.
CREATE TABLE discards (
    message bigint NOT NULL,
    integration integer NOT NULL,
    is_erased boolean NOT NULL DEFAULT false,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (message, integration)
);
