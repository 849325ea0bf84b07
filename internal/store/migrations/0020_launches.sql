-- The ledger of what was launched for hosted Runners, and how their hosting stands. A launch is open while a process may be there.

CREATE TABLE launches (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL,
	runner_id  {{text}} NOT NULL,
	name       {{text}} NOT NULL, -- of the Instance
	job_id     {{text}} NOT NULL, -- that starts it
	open       BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL,
	doc        {{text}} NOT NULL,
	UNIQUE (runner_id, name),
	FOREIGN KEY (org, runner_id) REFERENCES runners (org, id) ON DELETE CASCADE
);
CREATE INDEX launches_of_runner ON launches (runner_id, id);
CREATE INDEX launches_open ON launches (org, runner_id, id) WHERE open;
CREATE INDEX launches_of_job ON launches (job_id);

CREATE TABLE hosting (
	runner_id {{text}} PRIMARY KEY,
	org       {{text}} NOT NULL,
	doc       {{text}} NOT NULL,
	FOREIGN KEY (org, runner_id) REFERENCES runners (org, id) ON DELETE CASCADE
);
CREATE INDEX hosting_of_org ON hosting (org, runner_id);

-- Runner Jobs under way: what the Server has to do about them is looked for all the time.
CREATE INDEX jobs_of_hosting ON jobs (org, number) WHERE phase = 1 AND kind = 'runner';
