-- A key's own policies of texts that hold instructions, and of personal data. Empty: the configured one.
ALTER TABLE "key" ADD COLUMN injection TEXT NOT NULL DEFAULT '' CHECK (injection IN ('', 'off', 'flag', 'block', 'quarantine'));
ALTER TABLE "key" ADD COLUMN pii TEXT NOT NULL DEFAULT '' CHECK (pii IN ('', 'off', 'detect', 'mask', 'block'));
