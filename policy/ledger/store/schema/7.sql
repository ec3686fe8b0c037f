-- What the layers of the pipeline saved on a request: "l4 11800 4720;l1 0 -35", a layer with its tokens and its USDC base units, which are below zero
-- where the layer cost more than it saved.
ALTER TABLE request ADD COLUMN savings TEXT NOT NULL DEFAULT '';

-- The sum of it over all layers.
ALTER TABLE usage ADD COLUMN saved INTEGER NOT NULL DEFAULT 0;

-- The sums by layer, kept for ever. The day is days since 1970, UTC.
CREATE TABLE saving (
	account  TEXT NOT NULL,
	day      INTEGER NOT NULL,
	layer    TEXT NOT NULL,
	requests INTEGER NOT NULL, -- on which the layer saved or lost something
	tokens   INTEGER NOT NULL,
	saved    INTEGER NOT NULL,
	PRIMARY KEY (account, day, layer)
) STRICT, WITHOUT ROWID;

-- What callers said of answers, kept as long as requests. A score is in millionths, 0 to 1,000,000.
CREATE TABLE feedback (
	request TEXT PRIMARY KEY,
	account TEXT NOT NULL,
	at      INTEGER NOT NULL,
	score   INTEGER NOT NULL CHECK (score BETWEEN 0 AND 1000000),
	reason  TEXT NOT NULL,
	task    TEXT NOT NULL, -- as in the request's record
	regime  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX feedback_at ON feedback (at);
