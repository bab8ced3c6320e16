-- From this version on the state of a purchase may have names that the store said (`saidNames` in
-- Sources/Ledger/Schema/LedgerForm.swift). No table changes, so it waits for nobody; but a version before, which cannot
-- read them, refuses a ledger that has this migration.
SELECT;
