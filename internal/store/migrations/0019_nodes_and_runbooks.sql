-- Nodes, Node sources with what they gave last, Runbooks with their Schedules. next_at is null where nothing is due by itself.

CREATE TABLE nodes (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL,
	stack_id   {{text}} NOT NULL,
	name       {{text}} NOT NULL,
	doc        {{text}} NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	UNIQUE (stack_id, name),
	FOREIGN KEY (org, stack_id) REFERENCES stacks (org, id)
);
CREATE INDEX nodes_of_stack ON nodes (org, stack_id, name);

CREATE TABLE node_sources (
	id           {{text}} PRIMARY KEY,
	org          {{text}} NOT NULL,
	stack_id     {{text}} NOT NULL,
	name         {{text}} NOT NULL,
	doc          {{text}} NOT NULL,
	created_at   BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL,
	refreshed_at BIGINT NOT NULL DEFAULT 0,
	succeeded_at BIGINT NOT NULL DEFAULT 0,
	last_error   {{text}} NOT NULL DEFAULT '',
	last_job_id  {{text}} NOT NULL DEFAULT '',
	found        BIGINT NOT NULL DEFAULT 0, -- how many Nodes are kept of it
	next_at      BIGINT,
	UNIQUE (stack_id, name),
	UNIQUE (org, id),
	FOREIGN KEY (org, stack_id) REFERENCES stacks (org, id)
);
CREATE INDEX node_sources_of_stack ON node_sources (org, stack_id, name);
CREATE INDEX node_sources_due ON node_sources (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE discovered_nodes (
	source_id {{text}} NOT NULL,
	org       {{text}} NOT NULL,
	name      {{text}} NOT NULL,
	doc       {{text}} NOT NULL,
	PRIMARY KEY (source_id, name),
	FOREIGN KEY (org, source_id) REFERENCES node_sources (org, id) ON DELETE CASCADE
);

CREATE TABLE runbooks (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL,
	stack_id   {{text}} NOT NULL,
	name       {{text}} NOT NULL,
	doc        {{text}} NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	UNIQUE (stack_id, name),
	UNIQUE (org, id),
	FOREIGN KEY (org, stack_id) REFERENCES stacks (org, id)
);
CREATE INDEX runbooks_of_stack ON runbooks (org, stack_id, name);

-- rule: the cron expression and time zone that next_at was made of.
CREATE TABLE schedules (
	runbook_id  {{text}} NOT NULL,
	org         {{text}} NOT NULL,
	name        {{text}} NOT NULL,
	rule        {{text}} NOT NULL,
	next_at     BIGINT,
	last_at     BIGINT NOT NULL DEFAULT 0,
	last_job_id {{text}} NOT NULL DEFAULT '',
	last_error  {{text}} NOT NULL DEFAULT '',
	PRIMARY KEY (runbook_id, name),
	FOREIGN KEY (org, runbook_id) REFERENCES runbooks (org, id) ON DELETE CASCADE
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
