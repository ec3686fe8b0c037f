-- Losses (journals lost:…) that were forgiven, each once: what of a loss was still owed then. What an upgrade to version 11 forgave has no journal: of which
-- losses it was is not known.
CREATE TABLE forgiven (
	id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	account BIGINT NOT NULL REFERENCES balance (account),
	journal BIGINT UNIQUE REFERENCES journal (id),
	micro   BIGINT NOT NULL CHECK (micro >= 0),
	at      BIGINT NOT NULL,
	via     TEXT NOT NULL, -- how the operator did it: socket or http
	reason  TEXT NOT NULL
);

CREATE INDEX forgiven_account ON forgiven (account);

INSERT INTO forgiven (account, micro, at, via, reason)
	SELECT account, forgiven, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT), 'upgrade', 'earlier versions did not collect it' FROM balance WHERE forgiven > 0;
