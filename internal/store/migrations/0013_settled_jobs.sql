-- The Jobs that tell what became of a Module: those that changed it, or failed to. Plans, and what was canceled, do not.
CREATE INDEX jobs_settled ON jobs (org, module_id, number)
	WHERE phase = 2 AND action <> 'plan' AND status IN ('succeeded', 'failed');
