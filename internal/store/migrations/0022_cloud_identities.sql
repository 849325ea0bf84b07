-- sealed: the secret of an access key, null where the doc has a reference, or no key.
CREATE TABLE cloud_identities (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL REFERENCES organizations (id),
	name       {{text}} NOT NULL,
	doc        {{text}} NOT NULL,
	sealed     {{blob}},
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	UNIQUE (org, name)
);
