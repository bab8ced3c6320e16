-- The newest old link of a holder whose webhooks may name nobody stays, however old it is; it is marked, so that
-- pruning does not read it again each hour. It goes when a newer link of that holder is old.
ALTER TABLE holder_changes ADD COLUMN is_kept boolean NOT NULL DEFAULT false;
