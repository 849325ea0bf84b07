-- Where modules keep their state, as their last job reported it.
CREATE TABLE state_locations (
	module_id {{text}} PRIMARY KEY,
	org       {{text}} NOT NULL,
	doc       {{text}} NOT NULL,
	FOREIGN KEY (org, module_id) REFERENCES modules (org, id) ON DELETE CASCADE
);
