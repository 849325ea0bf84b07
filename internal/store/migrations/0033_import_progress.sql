-- How far a restore or a migration has filled this database. It is empty otherwise. A table is complete when done is true.
CREATE TABLE import_progress (
	source     {{text}} NOT NULL,
	table_name {{text}} NOT NULL,
	row_count  BIGINT NOT NULL,
	done       BOOLEAN NOT NULL,
	PRIMARY KEY (source, table_name)
);
