-- What the audit is listed by, beside its order.
CREATE INDEX events_by_actor ON events (org, actor, id) WHERE action <> '';
CREATE INDEX events_by_actor_id ON events (org, actor_id, id) WHERE action <> '';
CREATE INDEX events_by_subject ON events (org, subject, id) WHERE action <> '';
