-- Several gateways share a store. Each is an instance with blocks of its own; it lives as long as it has the lock on the
-- file beside the store that bears its number, and a number is never given again.
CREATE TABLE instance (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	at INTEGER NOT NULL
) STRICT;

-- When a gateway last asked the others for what they hold of a key and do not use.
ALTER TABLE balance ADD COLUMN short_at INTEGER NOT NULL DEFAULT 0;

-- What gateways that have a block in memory must hear of.
CREATE INDEX balance_news ON balance (account) WHERE blocked = 1 OR short_at > 0;

-- Whoever brings the store here has made sure that no gateway runs on it, so its blocks are nobody's.
UPDATE balance SET held = 0 WHERE held = (SELECT k.micro FROM block k WHERE k.account = balance.account);

DROP TABLE block;

-- The part of a balance that one gateway holds and gives out to requests from memory.
CREATE TABLE block (
	account  INTEGER NOT NULL REFERENCES balance (account),
	instance INTEGER NOT NULL REFERENCES instance (id),
	micro    INTEGER NOT NULL CHECK (micro >= 0),
	at       INTEGER NOT NULL,
	answered INTEGER NOT NULL DEFAULT 0, -- the last balance.short_at that this gateway gave its free part back for
	PRIMARY KEY (account, instance)
) STRICT, WITHOUT ROWID;

CREATE INDEX block_instance ON block (instance);
