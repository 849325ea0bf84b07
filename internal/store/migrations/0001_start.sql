-- Written once for both dialects: {{text}}, {{blob}} and {{event_id}} stand for a column's type.
-- Times are microseconds since 1970 in UTC, 0 for none. Every reference of a tenant's record bears the
-- Organization, so that no record can point into another one.

CREATE TABLE organizations (
	id          {{text}} PRIMARY KEY,
	name        {{text}} NOT NULL UNIQUE,
	last_number BIGINT NOT NULL DEFAULT 0, -- of its Jobs
	created_at  BIGINT NOT NULL
);

CREATE TABLE server_keys (
	name  {{text}} PRIMARY KEY,
	value {{blob}} NOT NULL
);

CREATE TABLE stacks (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL REFERENCES organizations (id),
	name       {{text}} NOT NULL,
	doc        {{text}} NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	UNIQUE (org, name),
	UNIQUE (org, id)
);

CREATE TABLE namespaces (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL,
	stack_id   {{text}} NOT NULL,
	name       {{text}} NOT NULL,
	doc        {{text}} NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	UNIQUE (stack_id, name),
	UNIQUE (org, stack_id, id),
	FOREIGN KEY (org, stack_id) REFERENCES stacks (org, id)
);

CREATE TABLE modules (
	id           {{text}} PRIMARY KEY,
	org          {{text}} NOT NULL,
	stack_id     {{text}} NOT NULL,
	namespace_id {{text}} NOT NULL,
	name         {{text}} NOT NULL,
	doc          {{text}} NOT NULL,
	created_at   BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL,
	UNIQUE (namespace_id, name),
	UNIQUE (org, id),
	FOREIGN KEY (org, stack_id, namespace_id) REFERENCES namespaces (org, stack_id, id)
);
CREATE INDEX modules_of_stack ON modules (org, stack_id, namespace_id);

CREATE TABLE service_principals (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL REFERENCES organizations (id),
	name       {{text}} NOT NULL,
	client_id  {{text}} NOT NULL,
	role       {{text}} NOT NULL,
	created_at BIGINT NOT NULL,
	UNIQUE (org, client_id)
);

CREATE TABLE credentials (
	id           {{text}} PRIMARY KEY,
	principal_id {{text}} NOT NULL REFERENCES service_principals (id) ON DELETE CASCADE,
	name         {{text}} NOT NULL,
	kind         {{text}} NOT NULL,
	hash         {{blob}} NOT NULL,
	created_at   BIGINT NOT NULL,
	expires_at   BIGINT NOT NULL,
	last_used_at BIGINT NOT NULL,
	UNIQUE (kind, hash)
);
CREATE INDEX credentials_of_principal ON credentials (principal_id);

CREATE TABLE runners (
	id           {{text}} PRIMARY KEY,
	org          {{text}} NOT NULL REFERENCES organizations (id),
	name         {{text}} NOT NULL,
	principal_id {{text}} NOT NULL,
	doc          {{text}} NOT NULL,
	created_at   BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL,
	UNIQUE (org, name),
	UNIQUE (org, id)
);

-- scope_id is the id of what the Assignment is for: the Module, else the Namespace, else the Stack.
CREATE TABLE assignments (
	id           {{text}} PRIMARY KEY,
	org          {{text}} NOT NULL,
	runner_id    {{text}} NOT NULL,
	stack_id     {{text}} NOT NULL,
	namespace_id {{text}},
	module_id    {{text}},
	scope_id     {{text}} NOT NULL,
	created_at   BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL,
	UNIQUE (runner_id, scope_id),
	FOREIGN KEY (org, runner_id) REFERENCES runners (org, id) ON DELETE CASCADE,
	FOREIGN KEY (org, stack_id) REFERENCES stacks (org, id) ON DELETE CASCADE,
	FOREIGN KEY (org, stack_id, namespace_id) REFERENCES namespaces (org, stack_id, id) ON DELETE CASCADE,
	FOREIGN KEY (org, module_id) REFERENCES modules (org, id) ON DELETE CASCADE
);
CREATE INDEX assignments_of_stack ON assignments (org, stack_id, namespace_id);
CREATE INDEX assignments_of_module ON assignments (org, module_id);

CREATE TABLE instances (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL,
	runner_id  {{text}} NOT NULL,
	name       {{text}} NOT NULL,
	key_hash   {{blob}} NOT NULL,
	session_id {{text}} NOT NULL,
	server_id  {{text}} NOT NULL,
	connected  BOOLEAN NOT NULL,
	last_seen  BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	doc        {{text}} NOT NULL,
	UNIQUE (runner_id, name),
	FOREIGN KEY (org, runner_id) REFERENCES runners (org, id) ON DELETE CASCADE
);
CREATE INDEX instances_of_org ON instances (org, runner_id);
CREATE INDEX instances_by_session ON instances (session_id);
CREATE INDEX instances_by_server ON instances (server_id) WHERE connected;

CREATE TABLE servers (
	id          {{text}} PRIMARY KEY,
	lease_until BIGINT NOT NULL
);

-- phase: 0 queued, 1 bound to an Instance, 2 over.
-- due_at: the end of the lease, of the recovery window or of the time for approval, by status; null for none.
CREATE TABLE jobs (
	id          {{text}} PRIMARY KEY,
	org         {{text}} NOT NULL REFERENCES organizations (id),
	number      BIGINT NOT NULL,
	module_id   {{text}} NOT NULL,
	action      {{text}} NOT NULL,
	phase       SMALLINT NOT NULL,
	status      {{text}} NOT NULL,
	attempt     INTEGER NOT NULL,
	runner_id   {{text}} NOT NULL,
	instance_id {{text}} NOT NULL,
	queued_at   BIGINT NOT NULL,
	due_at      BIGINT,
	doc         {{text}} NOT NULL,
	UNIQUE (org, number)
);
CREATE UNIQUE INDEX jobs_bound_once ON jobs (module_id) WHERE phase = 1;
CREATE INDEX jobs_queue ON jobs (queued_at, number, id) WHERE phase = 0;
CREATE INDEX jobs_queued_of_module ON jobs (module_id) WHERE phase = 0;
CREATE INDEX jobs_of_instance ON jobs (instance_id) WHERE phase = 1;
CREATE INDEX jobs_due ON jobs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_over ON jobs (org, status) WHERE phase = 2;
CREATE INDEX jobs_alive ON jobs (org, number) WHERE phase < 2;
CREATE INDEX jobs_of_module ON jobs (org, module_id, number);

CREATE TABLE job_snapshots (
	job_id {{text}} PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
	doc    {{text}} NOT NULL
);

-- One row per Job that printed something. tail holds the newest records, from tail_first to last_pos, as
-- they are encoded, until they are enough for a chunk.
CREATE TABLE log_jobs (
	job_id        {{text}} PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
	last_pos      BIGINT NOT NULL,
	heads         {{blob}} NOT NULL, -- how much of each Step is stored
	tail_first    BIGINT NOT NULL,
	tail          {{blob}} NOT NULL,
	archive       {{text}} NOT NULL,
	archived      BIGINT NOT NULL, -- positions up to this one are in the archive
	archive_lines BIGINT NOT NULL
);
CREATE INDEX log_jobs_unarchived ON log_jobs (job_id) WHERE archive = '';

CREATE TABLE log_chunks (
	job_id    {{text}} NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
	first_pos BIGINT NOT NULL,
	count     BIGINT NOT NULL,
	data      {{blob}} NOT NULL,
	PRIMARY KEY (job_id, first_pos)
);

CREATE TABLE output_sets (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL,
	module_id  {{text}} NOT NULL,
	job_id     {{text}} NOT NULL,
	serial     BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	doc        {{text}} NOT NULL,
	UNIQUE (module_id, serial),
	FOREIGN KEY (org, module_id) REFERENCES modules (org, id) ON DELETE CASCADE
);
CREATE INDEX output_sets_of_module ON output_sets (org, module_id, serial);

CREATE TABLE events (
	id      {{event_id}} PRIMARY KEY,
	org     {{text}} NOT NULL,
	at      BIGINT NOT NULL,
	kind    {{text}} NOT NULL,
	subject {{text}} NOT NULL,
	data    {{text}} NOT NULL
);
CREATE INDEX events_of_org ON events (org, id);

-- What PostgreSQL adds to its transaction numbers to make the ids of events; see dialect.go.
CREATE TABLE event_base (
	base BIGINT NOT NULL
);
INSERT INTO event_base (base) VALUES (0);
