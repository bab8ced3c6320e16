-- What the holders of a message have after it, as it was recorded: for integrations with `include = ["access"]`. Null:
-- no such integration asked for the message then. A row has nine columns and their bitmap anyway, so that a null here
-- takes no byte.
ALTER TABLE messages ADD COLUMN access bytea;

-- Versions of what a holder has. Drawn while the holder is locked, and never ahead: the cache of one is what makes them
-- rise.
CREATE SEQUENCE access_versions CACHE 1;
