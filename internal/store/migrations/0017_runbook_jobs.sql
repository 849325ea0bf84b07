-- kind: of work.Kind. lane: what only one Job at a time may hold (work.Job.LaneID). parent_id: of a Part, whose number is below zero so that no
-- list of Jobs shows it.
ALTER TABLE jobs ADD COLUMN kind {{text}} NOT NULL DEFAULT 'module';
ALTER TABLE jobs ADD COLUMN lane {{text}} NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN parent_id {{text}} NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN runbook_id {{text}} NOT NULL DEFAULT '';
UPDATE jobs SET lane = module_id;

DROP INDEX jobs_bound_once;
CREATE UNIQUE INDEX jobs_bound_once ON jobs (lane) WHERE phase = 1;
CREATE INDEX jobs_runs ON jobs (rank_at, number) WHERE phase < 2 AND kind IN ('runbook', 'command');
CREATE INDEX jobs_parts ON jobs (parent_id, number) WHERE parent_id <> '';
CREATE INDEX jobs_of_runbook ON jobs (org, runbook_id, number) WHERE runbook_id <> '';
CREATE INDEX jobs_by_kind ON jobs (org, kind, number);

-- How each Item of a Runbook Job went on each Node; node is -1 for what is done once per Runner. doc is the work.NodeEvent.
CREATE TABLE node_results (
	job_id      {{text}} NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
	item        INTEGER NOT NULL,
	node        INTEGER NOT NULL,
	part        INTEGER NOT NULL,
	attempt     INTEGER NOT NULL,
	status      {{text}} NOT NULL,
	done        SMALLINT NOT NULL,
	exit_code   INTEGER NOT NULL,
	started_at  BIGINT NOT NULL,
	finished_at BIGINT NOT NULL,
	doc         {{text}} NOT NULL,
	PRIMARY KEY (job_id, item, node, part)
);
