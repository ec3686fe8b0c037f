CREATE TABLE link (
  subject TEXT PRIMARY KEY,
  account TEXT NOT NULL,
  holder TEXT NOT NULL, -- the address that proved control of an agent; '' for other subjects
  at INTEGER NOT NULL, -- microseconds since 1970
  expires INTEGER NOT NULL -- microseconds since 1970; 0: never
) STRICT, WITHOUT ROWID;

CREATE INDEX link_account ON link (account);

-- The nonces of proofs that were used, until they could not be used any more in any case.
CREATE TABLE used (
  nonce BLOB PRIMARY KEY,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
