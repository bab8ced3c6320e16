-- The newest form of `purchases.state` that a daemon reads. Those of the versions before leave it out.
ALTER TABLE daemons ADD COLUMN state_form int NOT NULL DEFAULT 1;
