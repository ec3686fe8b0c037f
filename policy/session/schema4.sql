-- To version 4: what else a session's requests may use.
ALTER TABLE session ADD COLUMN subsystems TEXT NOT NULL DEFAULT '[]';   -- JSON list of subsystems; [] for any
ALTER TABLE session ADD COLUMN tools TEXT NOT NULL DEFAULT 'null'; -- JSON list; null for any
