CREATE INDEX output_sets_of_job ON output_sets (job_id);
