-- A lost Instance may still bring records after the log of its Job was archived: those are to be archived, too.
ALTER TABLE log_jobs ADD COLUMN late BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX log_jobs_late ON log_jobs (job_id) WHERE late;
