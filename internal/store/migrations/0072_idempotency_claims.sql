-- claim: random, names the one request that may make its change under the key.
ALTER TABLE idempotency_keys ADD COLUMN claim {{text}} NOT NULL DEFAULT '';
