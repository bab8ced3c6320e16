-- The vendor's own id of the event, as far as it was known when its body came: one that a header of the request gave is
-- in no body, and without it the same webhook would have another event key. As bytes, because what cannot be stored as
-- text is kept here, too. Null: it was not known, or an older version has put it here.
ALTER TABLE quarantine ADD COLUMN event_id bytea;
