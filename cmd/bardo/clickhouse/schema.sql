-- A row is a request. Rows with the same key, day and request_id replace each other when parts are merged: what is sent again counts once, in queries with FINAL
-- immediately. Times are UTC.
CREATE TABLE IF NOT EXISTS {table} (
	request_id         String,
	at                 DateTime64(6, 'UTC'),
	key                String,
	project            LowCardinality(String),
	golem              String,
	subsystem          LowCardinality(String),
	provider           LowCardinality(String),
	model              LowCardinality(String),
	status             LowCardinality(String),
	input_tokens       UInt64,
	cached_tokens      UInt64,
	cache_write_tokens UInt64,
	output_tokens      UInt64,
	reasoning_tokens   UInt64,
	cost_usd           Decimal(18, 6),
	charged_usd        Decimal(18, 6),
	provider_cost_usd  Decimal(38, 12),
	saved_usd          Decimal(18, 6),
	exported_at        DateTime64(3, 'UTC')
) ENGINE = ReplacingMergeTree(exported_at)
PARTITION BY toYYYYMM(at)
ORDER BY (key, toDate(at), request_id)
