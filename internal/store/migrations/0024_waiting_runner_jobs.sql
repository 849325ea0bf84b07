-- Runner Jobs that wait: those that follow a failed update are canceled, and a page asks for those of each Runner.
CREATE INDEX jobs_runner_waiting ON jobs (lane, number) WHERE phase = 0 AND kind = 'runner';
