-- To version 3: values are encrypted where there is a key, so their lengths stand beside them, and there are documents.
ALTER TABLE checkpoint ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pad ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE checkpoint SET bytes = length(state);
UPDATE pad SET bytes = length(value);

DROP TRIGGER checkpoint_added;
DROP TRIGGER pad_added;
DROP TRIGGER pad_changed;
DROP TRIGGER pad_removed;

CREATE TRIGGER checkpoint_added AFTER INSERT ON checkpoint BEGIN
	UPDATE session SET bytes = bytes + new.bytes WHERE id = new.session;
END;

CREATE TRIGGER pad_added AFTER INSERT ON pad BEGIN
	UPDATE session SET bytes = bytes + new.bytes WHERE id = new.session;
END;

CREATE TRIGGER pad_changed AFTER UPDATE ON pad BEGIN
	UPDATE session SET bytes = bytes + new.bytes - old.bytes WHERE id = new.session;
END;

CREATE TRIGGER pad_removed AFTER DELETE ON pad BEGIN
	UPDATE session SET bytes = bytes - old.bytes WHERE id = old.session;
END;

-- Documents that an agent wants to be found again.
CREATE TABLE memory (
	session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
	key     TEXT NOT NULL,
	id      TEXT NOT NULL,
	at      INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	bytes   INTEGER NOT NULL,
	head    BLOB NOT NULL,    -- JSON: title and source
	text    BLOB NOT NULL,
	PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX memory_expires ON memory (expires);

-- The pieces of documents that are compared with questions: places in the text, and their vectors by the model of the tag.
CREATE TABLE passage (
	session TEXT NOT NULL,
	key     TEXT NOT NULL,
	n       INTEGER NOT NULL,
	start   INTEGER NOT NULL,
	stop    INTEGER NOT NULL,
	tag     TEXT NOT NULL,    -- '' without a vector
	vector  BLOB NOT NULL,
	PRIMARY KEY (session, key, n),
	FOREIGN KEY (session, key) REFERENCES memory (session, key) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
	UPDATE session SET bytes = bytes + new.bytes WHERE id = new.session;
END;

CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
	UPDATE session SET bytes = bytes - old.bytes WHERE id = old.session;
END;
