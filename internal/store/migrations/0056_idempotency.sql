-- Requests with an Idempotency-Key. id is a hash of who sent the key and of the key. status is 0 until there is an answer, which is sealed.
-- changed: an Update of the request has changed something.
CREATE TABLE idempotency_keys (
	id          {{text}} PRIMARY KEY,
	org         {{text}} NOT NULL REFERENCES organizations (id),
	fingerprint {{blob}} NOT NULL,
	changed     BOOLEAN NOT NULL DEFAULT FALSE,
	status      BIGINT NOT NULL DEFAULT 0,
	answer      {{blob}},
	created_at  BIGINT NOT NULL,
	expires_at  BIGINT NOT NULL
);
CREATE INDEX idempotency_keys_expired ON idempotency_keys (expires_at);
