-- To version 2: what a session used and stores is counted by triggers, and what requests keep that are answered later is there.
ALTER TABLE session ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE session SET used = (SELECT coalesce(sum(micro), 0) FROM spent WHERE session = session.id),
	bytes = (SELECT coalesce(sum(length(state)), 0) FROM checkpoint WHERE session = session.id) + (SELECT coalesce(sum(length(value)), 0) FROM pad WHERE session = session.id);

-- What requests keep of a session's budget that are answered later, until a time.
CREATE TABLE kept (
	request TEXT PRIMARY KEY,
	session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
	micro   INTEGER NOT NULL,
	until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX kept_session ON kept (session);

CREATE TRIGGER spent_added AFTER INSERT ON spent BEGIN
	UPDATE session SET used = used + new.micro WHERE id = new.session;
	DELETE FROM kept WHERE request = new.request;
END;

CREATE TRIGGER checkpoint_added AFTER INSERT ON checkpoint BEGIN
	UPDATE session SET bytes = bytes + length(new.state) WHERE id = new.session;
END;

CREATE TRIGGER pad_added AFTER INSERT ON pad BEGIN
	UPDATE session SET bytes = bytes + length(new.value) WHERE id = new.session;
END;

CREATE TRIGGER pad_changed AFTER UPDATE ON pad BEGIN
	UPDATE session SET bytes = bytes + length(new.value) - length(old.value) WHERE id = new.session;
END;

CREATE TRIGGER pad_removed AFTER DELETE ON pad BEGIN
	UPDATE session SET bytes = bytes - length(old.value) WHERE id = old.session;
END;
