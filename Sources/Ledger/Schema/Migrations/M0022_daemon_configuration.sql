-- How the daemon is configured, for doctor: an object of the name of a section ("integration crm", "source shop") to a
-- digest of it, 16 hex digits, into which no secret goes. Null: an older version, which does not say.
ALTER TABLE daemons ADD COLUMN configuration jsonb;
