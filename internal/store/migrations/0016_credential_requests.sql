-- The request that a Credential was made for when it registered (a hash, of who asked, too), so that asking again gives another one
-- in its place; and the Credential that replaces this one, which ends once that is used.
ALTER TABLE credentials ADD COLUMN request {{text}} NOT NULL DEFAULT '';
ALTER TABLE credentials ADD COLUMN replaced_by {{text}} NOT NULL DEFAULT '';
CREATE INDEX credentials_replaced ON credentials (replaced_by) WHERE replaced_by <> '';
