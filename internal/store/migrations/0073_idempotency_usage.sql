-- sender: the principal, user or registration token of the request. answer_bytes: the size of the sealed answer.
ALTER TABLE idempotency_keys ADD COLUMN sender {{text}} NOT NULL DEFAULT '';
ALTER TABLE idempotency_keys ADD COLUMN answer_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE idempotency_keys SET answer_bytes = length(answer) WHERE answer IS NOT NULL;
CREATE INDEX idempotency_keys_sender ON idempotency_keys (org, sender, expires_at, answer_bytes);
