-- What is held for requests that are answered later. It is held whether a gateway runs or not: no block has it. The owner is who keeps the
-- requests, and releases what is held for those that it does not have any more.
CREATE TABLE standing (
	request TEXT PRIMARY KEY,
	account INTEGER NOT NULL REFERENCES balance (account),
	owner   TEXT NOT NULL,
	micro   INTEGER NOT NULL CHECK (micro > 0),
	at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX standing_owner ON standing (owner);
