-- From version 1.
ALTER TABLE session ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE session SET used = (SELECT coalesce(sum(micro), 0) FROM spent WHERE session = session.id),
	bytes = (SELECT coalesce(sum(length(state)), 0) FROM checkpoint WHERE session = session.id) + (SELECT coalesce(sum(length(value)), 0) FROM pad WHERE session = session.id);
