-- A row is an event, as docs/observability.md lists them. Rows with the same key, day, event and event_id replace each other when parts are merged: what is sent again counts
-- once, in queries with FINAL immediately. Times are UTC.
CREATE TABLE IF NOT EXISTS {table} (
	event_id    String,
	at          DateTime64(6, 'UTC'),
	event       LowCardinality(String),
	key         String,
	request_id  String,
	subsystem   LowCardinality(String),
	data        String,
	exported_at DateTime64(3, 'UTC')
) ENGINE = ReplacingMergeTree(exported_at)
PARTITION BY toYYYYMM(at)
ORDER BY (key, toDate(at), event, event_id)
