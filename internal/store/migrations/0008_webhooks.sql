-- What the Server keeps of a Runner's webhook beside its URL, and the calls of it.
-- due_at of a delivery: when it is to be tried, or when a try that nobody ended is taken for lost; null when it is over.
-- claim: who tries it now.

CREATE TABLE webhooks (
	runner_id {{text}} PRIMARY KEY,
	org       {{text}} NOT NULL,
	doc       {{text}} NOT NULL,
	FOREIGN KEY (org, runner_id) REFERENCES runners (org, id) ON DELETE CASCADE
);

CREATE TABLE webhook_deliveries (
	id         {{text}} PRIMARY KEY,
	org        {{text}} NOT NULL,
	runner_id  {{text}} NOT NULL,
	claim      {{text}} NOT NULL,
	due_at     BIGINT,
	created_at BIGINT NOT NULL,
	doc        {{text}} NOT NULL,
	FOREIGN KEY (org, runner_id) REFERENCES runners (org, id) ON DELETE CASCADE
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_of_runner ON webhook_deliveries (runner_id, id);
