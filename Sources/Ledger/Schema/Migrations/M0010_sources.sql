-- What status says of each source.

-- When a webhook of the source was last kept; null: not since this column is there.
ALTER TABLE source_names ADD COLUMN heard_at timestamptz;

-- How the daemon answered its sources within the last minute: an array of {"source", "answer", "count"}, where the
-- answer is stored, quarantined or an HTTP status. Null: an older version, which does not say.
ALTER TABLE daemons ADD COLUMN answers jsonb;
