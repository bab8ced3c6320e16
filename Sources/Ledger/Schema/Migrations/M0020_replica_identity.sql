-- Tables without a primary key. Where a publication is FOR ALL TABLES, PostgreSQL refuses to change or delete a row of a
-- table unless logical replication knows it by its primary key, or by all of it. A partition does not have this from its
-- table, so `Upkeep` sets it on those that it makes.
ALTER TABLE purchase_ends_missing REPLICA IDENTITY FULL;
ALTER TABLE attempts REPLICA IDENTITY FULL;
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'attempts'::regclass LOOP
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', part);
    END LOOP;
END $$;
