-- What the parts of an agent were charged on a day: an agent may have a budget for each, and what it spent must outlive a restart. The
-- agent is '' where the key's caller does not name one. Kept for two days.
CREATE TABLE spending (
	day     INTEGER NOT NULL, -- days since 1970, UTC
	account TEXT NOT NULL,
	agent   TEXT NOT NULL,
	part    TEXT NOT NULL,
	charged INTEGER NOT NULL,
	PRIMARY KEY (day, account, agent, part)
) STRICT, WITHOUT ROWID;
