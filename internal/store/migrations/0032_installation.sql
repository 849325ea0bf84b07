-- One row: this database as a whole. home is where it lay when a Server last used it, as far as the database can tell; empty when it cannot.
-- hold_since is 0 unless nothing is started until an operator resumes. hold_applied: the jobs that were active have been interrupted.
CREATE TABLE installation (
	id           {{text}} PRIMARY KEY,
	home         {{text}} NOT NULL,
	hold_reason  {{text}} NOT NULL,
	hold_since   BIGINT NOT NULL,
	hold_applied BOOLEAN NOT NULL
);
