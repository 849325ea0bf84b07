-- Releases of the program, which belong to the installation and not to an Organization. manifest and signature are the bytes that were
-- signed; the assets are among the blobs.
CREATE TABLE releases (
	version      {{text}} PRIMARY KEY,
	channel      {{text}} NOT NULL,
	state        {{text}} NOT NULL,
	manifest     {{blob}} NOT NULL,
	signature    {{blob}} NOT NULL,
	created_at   BIGINT NOT NULL,
	created_by   {{text}} NOT NULL,
	published_at BIGINT NOT NULL DEFAULT 0,
	published_by {{text}} NOT NULL DEFAULT '',
	withdrawn_at BIGINT NOT NULL DEFAULT 0,
	withdrawn_by {{text}} NOT NULL DEFAULT ''
);
CREATE INDEX releases_listed ON releases (created_at, version);
CREATE INDEX releases_published ON releases (channel) WHERE state = 'published';
