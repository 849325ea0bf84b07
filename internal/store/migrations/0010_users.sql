-- People who log in to the dashboard. The password is an argon2id hash in the PHC string format.
CREATE TABLE users (
	id           {{text}} PRIMARY KEY,
	org          {{text}} NOT NULL REFERENCES organizations (id),
	name         {{text}} NOT NULL,
	role         {{text}} NOT NULL,
	password     {{text}} NOT NULL,
	created_at   BIGINT NOT NULL,
	password_at  BIGINT NOT NULL,
	last_used_at BIGINT NOT NULL,
	UNIQUE (org, name)
);

-- Who is logged in with a browser: a user, or who showed a bearer token. Only the hash of the cookie is here.
CREATE TABLE web_sessions (
	hash          {{blob}} PRIMARY KEY,
	user_id       {{text}} REFERENCES users (id) ON DELETE CASCADE,
	credential_id {{text}} REFERENCES credentials (id) ON DELETE CASCADE,
	created_at    BIGINT NOT NULL,
	seen_at       BIGINT NOT NULL
);
CREATE INDEX web_sessions_of_user ON web_sessions (user_id);
CREATE INDEX web_sessions_of_credential ON web_sessions (credential_id);
CREATE INDEX web_sessions_old ON web_sessions (created_at);
