-- The access of the purchase's holders, so that a renewal reads and writes no row of `entitlements`: such a row is
-- written where `active` changes. {"state": the checksum of the state that this belongs to, "of": {holder: [1 or 0 as
-- `active`, as_of_ms, event, changed at (milliseconds)]}}; what is not there, the row says. Null: the rows say it all.
ALTER TABLE purchases ADD COLUMN access jsonb;
