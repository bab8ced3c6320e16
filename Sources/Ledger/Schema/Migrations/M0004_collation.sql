-- Text in an index is compared by its bytes. By the rules of a locale it is slower; and those rules come from the
-- operating system, which changes them with its updates: an index that was sorted by the old ones may then no longer
-- find what it holds, a unique one let in what it holds already (PostgreSQL manual, "Collation Support"; ALTER
-- COLLATION … REFRESH VERSION). Rebuilds the indexes that it touches, and no table.
ALTER TABLE integrations ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE source_names ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE quarantine ALTER COLUMN source TYPE text COLLATE "C";
ALTER TABLE events
    ALTER COLUMN holder TYPE text COLLATE "C", ALTER COLUMN store_transaction_id TYPE text COLLATE "C";
ALTER TABLE purchases ALTER COLUMN key TYPE text COLLATE "C";
ALTER TABLE transactions ALTER COLUMN store_transaction_id TYPE text COLLATE "C";
ALTER TABLE entitlements ALTER COLUMN holder TYPE text COLLATE "C";
ALTER TABLE transfers
    ALTER COLUMN from_holder TYPE text COLLATE "C", ALTER COLUMN to_holder TYPE text COLLATE "C";
ALTER TABLE holder_links
    ALTER COLUMN anonymous_user_id TYPE text COLLATE "C", ALTER COLUMN source TYPE text COLLATE "C",
    ALTER COLUMN app TYPE text COLLATE "C", ALTER COLUMN environment TYPE text COLLATE "C",
    ALTER COLUMN user_id TYPE text COLLATE "C";
ALTER TABLE holder_changes
    ALTER COLUMN subject TYPE text COLLATE "C", ALTER COLUMN source TYPE text COLLATE "C",
    ALTER COLUMN app TYPE text COLLATE "C", ALTER COLUMN environment TYPE text COLLATE "C";
ALTER TABLE installs
    ALTER COLUMN install TYPE text COLLATE "C", ALTER COLUMN source TYPE text COLLATE "C",
    ALTER COLUMN app TYPE text COLLATE "C", ALTER COLUMN environment TYPE text COLLATE "C";
ALTER TABLE install_identities
    ALTER COLUMN install TYPE text COLLATE "C", ALTER COLUMN identity TYPE text COLLATE "C",
    ALTER COLUMN source TYPE text COLLATE "C", ALTER COLUMN app TYPE text COLLATE "C",
    ALTER COLUMN environment TYPE text COLLATE "C";
