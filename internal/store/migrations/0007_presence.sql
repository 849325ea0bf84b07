-- offline: the Instance left, or nothing was heard of it for too long, and followers were told so.
-- leaving: its process ends when its Jobs are over. stalled: one of its Jobs prints nothing.
ALTER TABLE instances ADD COLUMN offline BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE instances ADD COLUMN leaving BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE instances ADD COLUMN stalled BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX instances_by_last_seen ON instances (last_seen) WHERE NOT offline;

-- What happened to a Runner, beside what is declared of it: the system of its first Instance, whether it drains.
ALTER TABLE runners ADD COLUMN state {{text}} NOT NULL DEFAULT '{}';
