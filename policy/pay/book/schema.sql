-- Payments for single requests. Amounts are in USDC base units, times in microseconds since 1970 unless they are an authorization's, in seconds.
CREATE TABLE payment (
	id           INTEGER PRIMARY KEY,
	network      TEXT NOT NULL,
	asset        TEXT NOT NULL,
	payer        TEXT NOT NULL,
	nonce        TEXT NOT NULL,
	pay_to       TEXT NOT NULL,
	upto         INTEGER NOT NULL DEFAULT 0,   -- scheme upto: what is moved is captured, at most amount
	facilitator  TEXT NOT NULL DEFAULT '',     -- of a permit of scheme upto
	amount       INTEGER NOT NULL CHECK (amount > 0),
	fee          INTEGER NOT NULL CHECK (fee >= 0 AND fee <= amount),
	valid_after  INTEGER NOT NULL,
	valid_before INTEGER NOT NULL,
	signature    BLOB NOT NULL,
	request      TEXT NOT NULL,                -- that it pays for
	holder       TEXT NOT NULL,                -- the gateway that serves the request
	service      TEXT NOT NULL CHECK (service IN ('serving', 'served', 'released')),
	settlement   TEXT NOT NULL CHECK (settlement IN ('none', 'settling', 'confirmed', 'final', 'failed')),
	charge       INTEGER NOT NULL DEFAULT 0,   -- what the request cost, once it was served
	captured     INTEGER NOT NULL DEFAULT 0 CHECK (captured >= 0 AND captured <= amount), -- what is moved, once it was served
	booked       INTEGER NOT NULL DEFAULT 0,   -- the ledger has the credit and the charge
	lost         INTEGER NOT NULL DEFAULT 0,   -- the ledger has the loss of a failed settlement
	from_block   INTEGER NOT NULL DEFAULT 0,   -- the chain's head when it was verified
	tx           TEXT NOT NULL DEFAULT '',     -- the transaction that moved the money, or that is to
	block        INTEGER NOT NULL DEFAULT 0,
	block_hash   TEXT NOT NULL DEFAULT '',
	reason       TEXT NOT NULL DEFAULT '',     -- why the last attempt to settle failed
	attempts     INTEGER NOT NULL DEFAULT 0,   -- to settle, that failed
	look_at      INTEGER NOT NULL DEFAULT 0,   -- when the chain is asked next whether a released payment was moved all the same; 0: it is not
	debt         INTEGER NOT NULL DEFAULT 0,   -- what of the payer's debt it is to pay, until it is booked
	kept         INTEGER NOT NULL DEFAULT 0,   -- 1: it was released, somebody else moved it, and it is the payer's credit
	at           INTEGER NOT NULL,
	changed      INTEGER NOT NULL,
	UNIQUE (network, asset, payer, nonce)
) STRICT;

CREATE INDEX payment_request ON payment (request);
CREATE INDEX payment_payer ON payment (payer, settlement);
CREATE INDEX payment_open ON payment (holder) WHERE service = 'serving' OR service = 'served' AND booked = 0;
CREATE INDEX payment_look ON payment (look_at) WHERE look_at > 0;
CREATE INDEX payment_due ON payment (settlement, service) WHERE settlement IN ('none', 'settling', 'confirmed') OR lost = 0 AND settlement = 'failed';

-- The transactions that were signed for a payment, written before they are sent. Those of one slot replace each other.
CREATE TABLE sent (
	hash    TEXT PRIMARY KEY,
	payment INTEGER NOT NULL REFERENCES payment (id),
	slot    INTEGER NOT NULL, -- the number of the transaction in the settling account
	raw     BLOB NOT NULL,
	tip     TEXT NOT NULL,
	cap     TEXT NOT NULL,
	open    INTEGER NOT NULL, -- 0: it failed, or its payment is over
	at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sent_payment ON sent (payment);
CREATE INDEX sent_slot ON sent (slot);
