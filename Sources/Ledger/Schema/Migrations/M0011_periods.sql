-- Events and messages lie in periods: a partition of each, with ids of its own, dropped as a whole when its time is
-- over.

-- The periods that stand (`Period`). The two tables become partitioned beside the service (`PeriodSwitch`); until then
-- there is none.
CREATE TABLE periods (
    -- Its events and messages have ids from this × 2³² on, below those of the next.
    id bigint PRIMARY KEY,
    began_at timestamptz NOT NULL DEFAULT now()
);
