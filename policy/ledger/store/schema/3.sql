-- Whose a thing is that a provider keeps under a key that several accounts use: a file, a batch, a response.
CREATE TABLE kept (
	id       TEXT PRIMARY KEY, -- the provider's
	account  TEXT NOT NULL,    -- '' for anonymous requests
	provider TEXT NOT NULL,
	at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
