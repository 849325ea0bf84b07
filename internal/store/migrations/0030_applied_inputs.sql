-- The inputs of the last apply of a module, sealed for the job and the attempt that they were resolved for. A destroy takes the outputs of
-- other modules from here, because those may be destroyed by then.
CREATE TABLE applied_inputs (
	module_id {{text}} PRIMARY KEY,
	org       {{text}} NOT NULL,
	job_id    {{text}} NOT NULL,
	attempt   BIGINT NOT NULL,
	sealed    {{blob}} NOT NULL,
	FOREIGN KEY (org, module_id) REFERENCES modules (org, id) ON DELETE CASCADE
);
