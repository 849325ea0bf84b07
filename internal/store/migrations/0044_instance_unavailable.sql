-- The reason for which an instance takes no new jobs for now, from its last heartbeat; empty while it takes jobs.
ALTER TABLE instances ADD COLUMN unavailable_reason {{text}} NOT NULL DEFAULT '';
