-- A Job is bound to the key of its Instance and not to its name alone. Jobs that are bound belong to the key that was seen last.
UPDATE jobs SET doc = replace(doc, '"binding":{', '"binding":{"instance_fingerprint":"' ||
	(SELECT {{fingerprint}} FROM instances i WHERE i.id = jobs.instance_id) || '",')
WHERE phase = 1 AND instance_id IN (SELECT id FROM instances);
