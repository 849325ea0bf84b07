-- Keys that values are sealed with, each wrapped by the master key. The newest that is not retired seals.
CREATE TABLE data_keys (
	id         {{text}} PRIMARY KEY,
	wrapped    {{blob}} NOT NULL,
	created_at BIGINT NOT NULL,
	retired    SMALLINT NOT NULL DEFAULT 0
);

-- scope_id: the narrowest of what the Secret belongs to. sealed is null for a reference. The Runbook is no foreign key: its table is younger,
-- and whoever deletes a Runbook deletes its Secrets.
CREATE TABLE secrets (
	id           {{text}} PRIMARY KEY,
	org          {{text}} NOT NULL,
	stack_id     {{text}} NOT NULL,
	namespace_id {{text}},
	module_id    {{text}},
	runbook_id   {{text}},
	scope_id     {{text}} NOT NULL,
	name         {{text}} NOT NULL,
	doc          {{text}} NOT NULL,
	sealed       {{blob}},
	changed_at   BIGINT NOT NULL,
	changed_by   {{text}} NOT NULL,
	created_at   BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL,
	UNIQUE (scope_id, name),
	FOREIGN KEY (org, stack_id) REFERENCES stacks (org, id),
	FOREIGN KEY (org, stack_id, namespace_id) REFERENCES namespaces (org, stack_id, id),
	FOREIGN KEY (org, module_id) REFERENCES modules (org, id) ON DELETE CASCADE
);
CREATE INDEX secrets_of_stack ON secrets (org, stack_id, name);
CREATE INDEX secrets_of_module ON secrets (org, module_id);

-- What a Job found that lists where Secrets can be had: a JSON list of references.
CREATE TABLE secret_paths (
	job_id {{text}} PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
	doc    {{text}} NOT NULL
);
