-- Where overdue purchases are looked for: the ends that transactions state. A row is a hint; which end is the
-- purchase's, its newest transaction says. Recording only adds rows, and upkeep deletes those whose time has come if
-- they are not the end of a purchase that somebody has. Ordered by time, so that what is written together lies together.
CREATE TABLE purchase_ends (
    until_ms bigint NOT NULL,
    purchase uuid NOT NULL,
    PRIMARY KEY (until_ms, purchase)
);

-- Of purchases from before this migration upkeep adds the ends: how far it is, in the order of their ids. No row: it is
-- done.
CREATE TABLE purchase_ends_missing (through uuid NOT NULL);
INSERT INTO purchase_ends_missing
SELECT '00000000-0000-0000-0000-000000000000'::uuid WHERE EXISTS (SELECT FROM purchases);

-- The end whose lapse was announced last; null: none was.
ALTER TABLE purchases ADD COLUMN lapsed_ms bigint;
