-- The newest form of `purchases.state` that a daemon reads. Those of the versions before leave it out.
ALTER TABLE daemons ADD COLUMN state_form int NOT NULL DEFAULT 1;

-- Whether a source has changes of holders at all: if not, its webhooks look up none.
CREATE INDEX holder_changes_source ON holder_changes (source);
