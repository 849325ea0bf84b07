-- Events by somebody are the audit: who did what, from which address. The others go after some days.
ALTER TABLE events ADD COLUMN action {{text}} NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN actor_id {{text}} NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN actor {{text}} NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN address {{text}} NOT NULL DEFAULT '';
CREATE INDEX events_audit ON events (org, id) WHERE action <> '';
CREATE INDEX events_to_prune ON events (id) WHERE action = '';
CREATE INDEX events_audit_to_prune ON events (id) WHERE action <> '';
