-- Requests that were refused before a provider was called, counted by key, minute and reason: a client that ignores refusals sends
-- thousands a second. The account is '' for those without a key. Kept for the retention time.
CREATE TABLE refusal (
	account  TEXT NOT NULL,
	minute   INTEGER NOT NULL, -- minutes since 1970
	reason   TEXT NOT NULL,
	status   INTEGER NOT NULL, -- HTTP
	requests INTEGER NOT NULL,
	PRIMARY KEY (account, minute, reason, status)
) STRICT, WITHOUT ROWID;

CREATE INDEX refusal_minute ON refusal (minute);

-- How many of the requests of a sum were refused. Those of refusals have neither a model nor a provider.
ALTER TABLE usage ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;
