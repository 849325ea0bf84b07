-- When the time limit of a job ends it; null for a job without one.
ALTER TABLE jobs ADD COLUMN deadline_at BIGINT;
CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL;
