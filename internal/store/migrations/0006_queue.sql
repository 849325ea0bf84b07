-- rank_at: the place of a Job among all that wait (work.Rank): when it was created, earlier or later by its priority.
ALTER TABLE jobs ADD COLUMN rank_at BIGINT NOT NULL DEFAULT 0;
UPDATE jobs SET rank_at = queued_at WHERE phase = 0;
DROP INDEX jobs_queue;
CREATE INDEX jobs_queue ON jobs (rank_at, number, id) WHERE phase = 0;

-- A claim counts the Jobs that hold a place of its Instance and of its Runner: the indexes alone answer that.
DROP INDEX jobs_of_instance;
CREATE INDEX jobs_of_instance ON jobs (instance_id, status) WHERE phase = 1;
CREATE INDEX jobs_of_runner ON jobs (runner_id, instance_id, status) WHERE phase = 1;

-- While an Organization is here, none of its Jobs is given out.
CREATE TABLE maintenance (
	org    {{text}} PRIMARY KEY REFERENCES organizations (id),
	reason {{text}} NOT NULL,
	by     {{text}} NOT NULL,
	since  BIGINT NOT NULL
);
