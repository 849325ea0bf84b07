-- A list of Jobs leaves out what the Server has done by itself, which may be most of them: a Node source that is asked every ten seconds
-- makes 8,640 Jobs a day.
CREATE INDEX jobs_no_chores ON jobs (org, number) WHERE (kind <> 'discovery' AND (kind <> 'runner' OR action NOT IN ('launch', 'tidy')));
