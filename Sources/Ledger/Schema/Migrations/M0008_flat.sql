-- Fewer places of large indexes that each event touches.

-- Whether the event's holder has no row in `entitlements` for the event's purchase. Such an event is indexed by its
-- holder; the others are found by the purchases that `entitlements` names. Of those recorded before nobody knows: they
-- count as stray. The indexes are built and dropped beside the service (`IndexMigration`).
ALTER TABLE events ADD COLUMN stray boolean NOT NULL DEFAULT true;

-- A message that passes an event on has the event's key, and here null. Rows that versions before wrote keep a key of
-- their own.
ALTER TABLE messages ALTER COLUMN key DROP NOT NULL;
