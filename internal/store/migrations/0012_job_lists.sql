-- What Jobs are listed by. Every such index ends with the number, which is the order of a list, and none holds what changes
-- while a Job is under way, so that its writes cost no more.
ALTER TABLE jobs ADD COLUMN module_path {{text}} NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN created_by {{text}} NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0;
-- Of a Job that was lost meanwhile the time of its return stands for that of its beginning, which is only in its document.
UPDATE jobs SET module_path = coalesce({{json}} ->> 'module', ''), created_by = coalesce({{json}} ->> 'created_by', ''), created_at = queued_at;

DROP INDEX jobs_over;
CREATE INDEX jobs_over ON jobs (org, status, number) WHERE phase = 2;
CREATE INDEX jobs_by_action ON jobs (org, action, number);
CREATE INDEX jobs_by_runner ON jobs (org, runner_id, number) WHERE runner_id <> '';
CREATE INDEX jobs_by_time ON jobs (org, created_at, number);
-- A search reads this index alone.
CREATE INDEX jobs_search ON jobs (org, number, module_path, created_by);
