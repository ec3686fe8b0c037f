-- The agent that sent a request, '' where it did not say: sums by agent. What a sum counted before this version has no agent.
CREATE TABLE usage_by_agent (
	account       TEXT NOT NULL,
	day           INTEGER NOT NULL,
	model         TEXT NOT NULL,
	provider      TEXT NOT NULL,
	subsystem     TEXT NOT NULL,
	agent         TEXT NOT NULL DEFAULT '',
	requests      INTEGER NOT NULL,
	refused       INTEGER NOT NULL DEFAULT 0,
	input         INTEGER NOT NULL,
	cached        INTEGER NOT NULL,
	cache_write   INTEGER NOT NULL,
	output        INTEGER NOT NULL,
	reasoning     INTEGER NOT NULL,
	charged       INTEGER NOT NULL,
	provider_cost INTEGER NOT NULL,
	saved         INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (account, day, model, provider, subsystem, agent)
) STRICT, WITHOUT ROWID;

INSERT INTO usage_by_agent (account, day, model, provider, subsystem, agent, requests, refused, input, cached, cache_write, output, reasoning, charged, provider_cost, saved)
	SELECT account, day, model, provider, subsystem, '', requests, refused, input, cached, cache_write, output, reasoning, charged, provider_cost, saved FROM usage;

DROP TABLE usage;

ALTER TABLE usage_by_agent RENAME TO usage;

-- The sums by layer, likewise: with what the requests were. What a sum counted before this version has none of it.
CREATE TABLE saving_by_agent (
	account   TEXT NOT NULL,
	day       INTEGER NOT NULL,
	layer     TEXT NOT NULL,
	model     TEXT NOT NULL DEFAULT '',
	provider  TEXT NOT NULL DEFAULT '',
	subsystem TEXT NOT NULL DEFAULT '',
	agent     TEXT NOT NULL DEFAULT '',
	requests  INTEGER NOT NULL, -- on which the layer saved or lost something
	tokens    INTEGER NOT NULL,
	saved     INTEGER NOT NULL,
	PRIMARY KEY (account, day, layer, model, provider, subsystem, agent)
) STRICT, WITHOUT ROWID;

INSERT INTO saving_by_agent (account, day, layer, model, provider, subsystem, agent, requests, tokens, saved)
	SELECT account, day, layer, '', '', '', '', requests, tokens, saved FROM saving;

DROP TABLE saving;

ALTER TABLE saving_by_agent RENAME TO saving;

-- The agent of a request's row, for exports.
ALTER TABLE request ADD COLUMN agent TEXT NOT NULL DEFAULT '';
