-- How much there was to do, minute by minute: of an Organization (runner_id '') and of each of its Runners.
CREATE TABLE load_samples (
	org       {{text}} NOT NULL REFERENCES organizations (id),
	runner_id {{text}} NOT NULL,
	at        BIGINT NOT NULL,
	queued    BIGINT NOT NULL, -- Jobs that waited; 0 for a Runner
	oldest    BIGINT NOT NULL, -- microseconds that the first of them had waited; 0 for a Runner
	active    BIGINT NOT NULL, -- Jobs that took a place
	capacity  BIGINT NOT NULL, -- places of the connected Instances
	PRIMARY KEY (org, runner_id, at)
);
CREATE INDEX load_samples_at ON load_samples (at);
