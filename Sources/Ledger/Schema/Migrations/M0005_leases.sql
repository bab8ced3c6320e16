-- A lease ends by the time of the database alone: which daemon lives is no longer guessed from its process id. Daemons of
-- the version before fill these three columns, and end the leases of rows whose `place` is theirs and whose process they
-- do not find: so the columns stay, and a row that leaves them out has a `place` that no other has.
ALTER TABLE daemons
    ALTER COLUMN place SET DEFAULT gen_random_uuid()::text,
    ALTER COLUMN process_id SET DEFAULT 0,
    ALTER COLUMN process_started SET DEFAULT 0,
    -- By which the next daemon on the same state directory knows that this one is dead. NULL: it has no such directory
    -- for itself, and its lease runs out.
    ADD COLUMN key uuid;
