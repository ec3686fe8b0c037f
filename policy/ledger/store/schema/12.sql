-- Losses (journals lost:…) that were forgiven, each once: what of a loss was still owed then. What an upgrade to version 11 forgave has no journal: of which
-- losses it was is not known.
CREATE TABLE forgiven (
	id      INTEGER PRIMARY KEY,
	account INTEGER NOT NULL REFERENCES balance (account),
	journal INTEGER UNIQUE REFERENCES journal (id),
	micro   INTEGER NOT NULL CHECK (micro >= 0),
	at      INTEGER NOT NULL,
	via     TEXT NOT NULL, -- how the operator did it: socket or http
	reason  TEXT NOT NULL
) STRICT;

CREATE INDEX forgiven_account ON forgiven (account);

INSERT INTO forgiven (account, micro, at, via, reason)
	SELECT account, forgiven, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, 'upgrade', 'earlier versions did not collect it' FROM balance WHERE forgiven > 0;
