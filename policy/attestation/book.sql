-- Tokens are only ever appended: each has the hash of the one before it.
CREATE TABLE token (
	seq   INTEGER PRIMARY KEY,
	hash  TEXT NOT NULL,
	token TEXT NOT NULL -- JSON, without content of requests and answers
) STRICT;

CREATE TRIGGER token_fixed BEFORE UPDATE ON token BEGIN SELECT RAISE(ABORT, 'a token does not change'); END;
CREATE TRIGGER token_stays BEFORE DELETE ON token BEGIN SELECT RAISE(ABORT, 'a token stays'); END;
