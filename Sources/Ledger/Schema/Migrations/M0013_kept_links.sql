-- The newest old link of a holder whose webhooks may name nobody stays, however old it is; it is marked, so that
-- pruning does not read it again each hour. It goes when a newer link of that holder is old.
ALTER TABLE holder_changes ADD COLUMN is_kept boolean NOT NULL DEFAULT false;

-- Whether a source has changes of holders at all, as before; and which of them are to be looked at, by their arrival.
DROP INDEX holder_changes_source;
CREATE INDEX holder_changes_source ON holder_changes (source, is_kept, received_at);
