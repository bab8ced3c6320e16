-- What is written together lies together.

-- The hash of what names the purchase, from which the id was taken so far. The id begins with the time at which the
-- purchase was first heard of; null: the id is the hash. Their index is built beside the service (`IndexMigration`).
ALTER TABLE purchases ADD COLUMN hash uuid;
