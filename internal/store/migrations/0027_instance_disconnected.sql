-- When the last connection of an instance ended, so that a connection that was lost just now can be shown.
ALTER TABLE instances ADD COLUMN disconnected_at BIGINT NOT NULL DEFAULT 0;
UPDATE instances SET disconnected_at = last_seen WHERE NOT connected;
