-- Times are in microseconds since 1970, money in millionths of a dollar.
CREATE TABLE session (
	id      TEXT PRIMARY KEY,
	account TEXT NOT NULL,
	parent  TEXT REFERENCES session (id),
	depth   INTEGER NOT NULL,
	golem   TEXT NOT NULL,
	models  TEXT NOT NULL,    -- JSON list; [] for any
	budget  INTEGER,          -- NULL: none of its own
	at      INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	closed  INTEGER,
	secret  BLOB NOT NULL     -- SHA-256 of the session key's secret
) STRICT, WITHOUT ROWID;

CREATE INDEX session_account ON session (account, expires);
CREATE INDEX session_parent ON session (parent);

-- What its own requests cost. A request is counted once.
CREATE TABLE spent (
	session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
	request TEXT NOT NULL,
	micro   INTEGER NOT NULL,
	PRIMARY KEY (session, request)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoint (
	session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
	id      TEXT NOT NULL,
	at      INTEGER NOT NULL,
	state   BLOB NOT NULL,
	PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pad (
	session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
	key     TEXT NOT NULL,
	version INTEGER NOT NULL,
	value   BLOB NOT NULL,
	PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
