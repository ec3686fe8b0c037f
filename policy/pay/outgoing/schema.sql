-- Authorizations that this machine's wallets have signed for others. Amounts are in USDC base units, times in microseconds since 1970 unless they are an
-- authorization's, in seconds.
CREATE TABLE payment (
	id           INTEGER PRIMARY KEY,
	purpose      TEXT NOT NULL,             -- who signs: a command, or a provider of the gateway; each has a cap of its own
	request      TEXT NOT NULL,             -- that it pays for
	network      TEXT NOT NULL,
	asset        TEXT NOT NULL,
	payer        TEXT NOT NULL,
	nonce        TEXT NOT NULL,
	pay_to       TEXT NOT NULL,
	upto         INTEGER NOT NULL,
	amount       INTEGER NOT NULL CHECK (amount > 0),                                -- that was signed: the most that can be moved
	paid         INTEGER NOT NULL CHECK (paid >= 0 AND paid <= amount),              -- that counts as spent
	valid_before INTEGER NOT NULL,
	header       TEXT NOT NULL,             -- the payment as it is sent; "" once it need not be sent again
	state        TEXT NOT NULL CHECK (state IN ('open', 'answered', 'used', 'unused')),
	tx           TEXT NOT NULL DEFAULT '',  -- the transaction that moved it, as the payee says
	reason       TEXT NOT NULL DEFAULT '',  -- why the outcome of its request is not known
	at           INTEGER NOT NULL,
	changed      INTEGER NOT NULL,
	UNIQUE (network, asset, payer, nonce)
) STRICT;

-- At most one authorization of a request may be in doubt.
CREATE UNIQUE INDEX payment_open ON payment (payer, purpose, request) WHERE state = 'open';
CREATE INDEX payment_spent ON payment (payer, purpose, at);
CREATE INDEX payment_unsettled ON payment (valid_before) WHERE state IN ('open', 'answered');
