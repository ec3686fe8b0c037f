-- The agent that sent a request, '' where it did not say: sums by agent. What a sum counted before this version has no agent.
ALTER TABLE usage ADD COLUMN agent TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE usage DROP CONSTRAINT usage_pkey;
ALTER TABLE usage ADD PRIMARY KEY (account, day, model, provider, subsystem, agent);

-- The sums by layer, likewise: with what the requests were. What a sum counted before this version has none of it.
ALTER TABLE saving ADD COLUMN model TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE saving ADD COLUMN provider TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE saving ADD COLUMN subsystem TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE saving ADD COLUMN agent TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE saving DROP CONSTRAINT saving_pkey;
ALTER TABLE saving ADD PRIMARY KEY (account, day, layer, model, provider, subsystem, agent);

-- The agent of a request's row, for exports.
ALTER TABLE request ADD COLUMN agent TEXT NOT NULL DEFAULT '';
