-- What a daemon mixes the keys of its advisory locks with (Sources/Postgres/SchemaName.swift). Null: it is of an older
-- version.
ALTER TABLE daemons ADD COLUMN lock_salt bigint;
