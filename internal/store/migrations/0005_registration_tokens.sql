-- What lets a Runner register itself. labels is a JSON object; uses_left is -1 where they are not counted.
CREATE TABLE registration_tokens (
	id           {{text}} PRIMARY KEY,
	org          {{text}} NOT NULL REFERENCES organizations (id),
	name         {{text}} NOT NULL,
	hash         {{blob}} NOT NULL UNIQUE,
	labels       {{text}} NOT NULL,
	give_labels  BOOLEAN NOT NULL,
	uses_left    BIGINT NOT NULL,
	created_by   {{text}} NOT NULL,
	created_at   BIGINT NOT NULL,
	expires_at   BIGINT NOT NULL,
	last_used_at BIGINT NOT NULL
);
CREATE INDEX registration_tokens_of_org ON registration_tokens (org);

-- The registration token that made a Runner, empty when an owner did.
ALTER TABLE runners ADD COLUMN registered_by {{text}} NOT NULL DEFAULT '';
CREATE INDEX runners_of_principal ON runners (principal_id);

-- The Instance that a Credential was made for when it registered, empty for any other one.
ALTER TABLE credentials ADD COLUMN instance {{text}} NOT NULL DEFAULT '';
CREATE INDEX credentials_of_instance ON credentials (principal_id, instance) WHERE instance <> '';
