-- Who pays for projects, and what they may be charged together. Zero: no limit.
CREATE TABLE owner (
	id              TEXT COLLATE "C" PRIMARY KEY,
	name            TEXT NOT NULL,
	spend_per_day   BIGINT NOT NULL CHECK (spend_per_day >= 0),
	spend_per_month BIGINT NOT NULL CHECK (spend_per_month >= 0),
	created_at      BIGINT NOT NULL
);

-- Groups of keys, likewise.
CREATE TABLE project (
	id              TEXT COLLATE "C" PRIMARY KEY,
	name            TEXT NOT NULL,
	owner           TEXT COLLATE "C" NOT NULL REFERENCES owner (id),
	spend_per_day   BIGINT NOT NULL CHECK (spend_per_day >= 0),
	spend_per_month BIGINT NOT NULL CHECK (spend_per_month >= 0),
	created_at      BIGINT NOT NULL
);

-- The project of a key; NULL for none.
ALTER TABLE "key" ADD COLUMN project TEXT COLLATE "C" REFERENCES project (id);

CREATE INDEX key_project ON "key" (project);

-- What else a key may do, as JSON; empty for everything.
ALTER TABLE "key" ADD COLUMN rules TEXT NOT NULL DEFAULT '';
