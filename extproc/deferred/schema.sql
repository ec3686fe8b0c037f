-- Times are in microseconds since 1970. What is content may be encrypted.

-- Who this store is in the ledger, where money is held for its requests.
CREATE TABLE owner (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE request (
	id        TEXT PRIMARY KEY,
	account   TEXT NOT NULL,
	state     TEXT NOT NULL,
	dialect   TEXT NOT NULL,
	subsystem TEXT NOT NULL,
	prepaid   INTEGER NOT NULL,
	held      INTEGER NOT NULL, -- micro-dollars that stand for it in the ledger
	secret    INTEGER NOT NULL, -- it is confidential or private: it is never part of a batch
	at        INTEGER NOT NULL,
	deadline  INTEGER NOT NULL,
	due       INTEGER NOT NULL, -- when something is to be done with it next
	tries     INTEGER NOT NULL DEFAULT 0,
	cancelled INTEGER NOT NULL DEFAULT 0,
	batch     TEXT,             -- the one that it is part of
	size      INTEGER NOT NULL, -- bytes that are stored of it
	head      BLOB,             -- content, until the request is over
	body      BLOB,             -- content
	done      INTEGER,          -- when it was over
	delivered INTEGER,          -- when its answer was first read
	answer    BLOB              -- content, until it is deleted
) STRICT, WITHOUT ROWID;

CREATE INDEX request_state ON request (state, due);
CREATE INDEX request_account ON request (account, state);
CREATE INDEX request_batch ON request (batch);

-- Answers of providers, which are read again if the gateway ends before the request is over: no call is made twice whose answer is here.
CREATE TABLE call (
	request TEXT NOT NULL,
	digest  BLOB NOT NULL,    -- of the cluster, the path and the body
	batch   INTEGER NOT NULL, -- it is a result of a batch, at a batch's price
	model   TEXT NOT NULL,    -- of a batch: provider and model, as the catalog has them
	masked  INTEGER NOT NULL, -- the request had values masked: the answer belongs to this very text
	status  INTEGER NOT NULL,
	body    BLOB NOT NULL,    -- content
	PRIMARY KEY (request, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE batch (
	id        TEXT PRIMARY KEY, -- its tag at the provider
	state     TEXT NOT NULL,
	provider  TEXT NOT NULL,
	key       TEXT NOT NULL,    -- fingerprint
	path      TEXT NOT NULL,
	model     TEXT NOT NULL,
	beta      TEXT NOT NULL,
	at        INTEGER NOT NULL,
	size      INTEGER NOT NULL DEFAULT 0,
	due       INTEGER NOT NULL,
	tries     INTEGER NOT NULL DEFAULT 0,
	input     TEXT NOT NULL DEFAULT '',
	remote    TEXT NOT NULL DEFAULT '',
	submitted INTEGER NOT NULL DEFAULT 0, -- when its submission began
	cancelled INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX batch_state ON batch (state, due);

-- The requests of batches as they are handed in.
CREATE TABLE item (
	request TEXT PRIMARY KEY,
	batch   TEXT NOT NULL,
	digest  BLOB NOT NULL,
	masked  INTEGER NOT NULL,
	body    BLOB NOT NULL -- content
) STRICT, WITHOUT ROWID;

CREATE INDEX item_batch ON item (batch);
