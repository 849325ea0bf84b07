-- Where a Web session was opened from, so that its user can tell it from the others.
ALTER TABLE web_sessions ADD COLUMN address {{text}} NOT NULL DEFAULT '';
