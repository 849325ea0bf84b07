-- Jobs that were bound when rank_at came had none; the next write of each Job sets it right.
UPDATE jobs SET rank_at = queued_at WHERE rank_at = 0;
