-- What the Inputs of a bound Job were resolved to when it was claimed, sealed, for as long as that Attempt lasts.
CREATE TABLE job_inputs (
	job_id  {{text}} PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
	attempt INTEGER NOT NULL,
	sealed  {{blob}} NOT NULL
);
