-- Each change of a holder is applied once, and looked up by the holder it is about, from a time on.
DROP INDEX holder_changes_subject;
CREATE INDEX holder_changes_next
    ON holder_changes (subject, source, app, environment, (kind = 'login'), at_ms);

-- The last of the subject's purchases, in the order of their ids, that it was applied to; null: it was applied to all.
-- What is left is taken in steps.
ALTER TABLE holder_changes ADD COLUMN applied_through uuid;
CREATE INDEX holder_changes_unfinished ON holder_changes (id) WHERE applied_through IS NOT NULL;

-- When it came, by which it is forgotten: no source sends a webhook later than `Limits.retryHorizonMilliseconds`.
ALTER TABLE holder_changes ADD COLUMN received_at timestamptz NOT NULL DEFAULT now();
