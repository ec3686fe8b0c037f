-- Money is in USDC base units (1 USD = 1,000,000), provider costs are in 1e-12 USD, times in microseconds since 1970.

-- One account per key, named by the key's id, and the operator's own.
CREATE TABLE account (
	id   INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO account (id, name) VALUES (1, 'operator:deposits'), (2, 'operator:revenue'), (3, 'operator:loss');

CREATE TABLE "key" (
	id              TEXT PRIMARY KEY REFERENCES account (name),
	name            TEXT NOT NULL,
	tier            TEXT NOT NULL,
	hash            TEXT NOT NULL,
	pepper_version  INTEGER NOT NULL,
	prepaid         INTEGER NOT NULL CHECK (prepaid IN (0, 1)),
	read_only       INTEGER NOT NULL CHECK (read_only IN (0, 1)),
	rpm             INTEGER NOT NULL,
	tokens_per_hour INTEGER NOT NULL,
	spend_per_day   INTEGER NOT NULL,
	networks        TEXT NOT NULL,
	created_at      INTEGER NOT NULL,
	revoked_at      INTEGER
) STRICT, WITHOUT ROWID;

-- The sum of a prepaid key's entries, and how much of it is held in its block.
CREATE TABLE balance (
	account INTEGER PRIMARY KEY REFERENCES account (id),
	micro   INTEGER NOT NULL DEFAULT 0,
	held    INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
	credit  INTEGER NOT NULL DEFAULT 0 CHECK (credit >= 0),
	blocked INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1)),
	CHECK (micro - held >= -credit)
) STRICT;

-- The part of a balance that the gateway holds and gives out to requests from memory.
CREATE TABLE block (
	account INTEGER PRIMARY KEY REFERENCES balance (account),
	micro   INTEGER NOT NULL CHECK (micro >= 0),
	at      INTEGER NOT NULL
) STRICT;

CREATE TABLE journal (
	id   INTEGER PRIMARY KEY,
	idem TEXT NOT NULL UNIQUE,
	kind TEXT NOT NULL CHECK (kind IN ('deposit', 'charge')),
	at   INTEGER NOT NULL,
	ref  TEXT NOT NULL
) STRICT;

-- What a journal moves. The entries of a journal sum to zero; a positive amount belongs to the account.
CREATE TABLE entry (
	journal INTEGER NOT NULL REFERENCES journal (id),
	account INTEGER NOT NULL REFERENCES account (id),
	amount  INTEGER NOT NULL CHECK (amount <> 0),
	PRIMARY KEY (journal, account)
) STRICT, WITHOUT ROWID;

-- One row per request, kept for the retention time. The account is '' for anonymous requests; the journal is NULL where
-- no balance was charged.
CREATE TABLE request (
	id            TEXT NOT NULL UNIQUE,
	account       TEXT NOT NULL,
	journal       INTEGER REFERENCES journal (id),
	at            INTEGER NOT NULL,
	provider      TEXT NOT NULL,
	model         TEXT NOT NULL,
	subsystem     TEXT NOT NULL,
	status        TEXT NOT NULL,
	input         INTEGER NOT NULL,
	cached        INTEGER NOT NULL,
	cache_write   INTEGER NOT NULL,
	output        INTEGER NOT NULL,
	reasoning     INTEGER NOT NULL,
	amount        INTEGER NOT NULL,
	charged       INTEGER NOT NULL,
	provider_cost INTEGER NOT NULL,
	record        BLOB
) STRICT;

-- The sums of all requests, kept for ever. The day is days since 1970, UTC.
CREATE TABLE usage (
	account       TEXT NOT NULL,
	day           INTEGER NOT NULL,
	model         TEXT NOT NULL,
	provider      TEXT NOT NULL,
	subsystem     TEXT NOT NULL,
	requests      INTEGER NOT NULL,
	input         INTEGER NOT NULL,
	cached        INTEGER NOT NULL,
	cache_write   INTEGER NOT NULL,
	output        INTEGER NOT NULL,
	reasoning     INTEGER NOT NULL,
	charged       INTEGER NOT NULL,
	provider_cost INTEGER NOT NULL,
	PRIMARY KEY (account, day, model, provider, subsystem)
) STRICT, WITHOUT ROWID;
