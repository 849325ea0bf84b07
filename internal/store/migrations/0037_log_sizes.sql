-- How many bytes of the log of each Step are stored, in the form of heads: beyond a limit the log is cut.
ALTER TABLE log_jobs ADD COLUMN sizes {{blob}};
