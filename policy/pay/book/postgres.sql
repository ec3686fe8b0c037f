-- Payments for single requests. Amounts are in USDC base units, times in microseconds since 1970 unless they are an authorization's, in seconds.

CREATE TABLE payment_book (
	version INTEGER NOT NULL -- of these tables
);

-- The gateways that take payments, each of which renews its row.
CREATE TABLE payment_gateway (
	id TEXT COLLATE "C" PRIMARY KEY,
	at BIGINT NOT NULL -- by the database's clock
);

-- The gateway that settles, '' for none.
CREATE TABLE payment_settler (
	holder TEXT COLLATE "C" NOT NULL
);

INSERT INTO payment_settler (holder) VALUES ('');

CREATE TABLE payment (
	id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	network      TEXT COLLATE "C" NOT NULL,
	asset        TEXT COLLATE "C" NOT NULL,
	payer        TEXT COLLATE "C" NOT NULL,
	nonce        TEXT COLLATE "C" NOT NULL,
	pay_to       TEXT NOT NULL,
	upto         INTEGER NOT NULL DEFAULT 0,   -- scheme upto: what is moved is captured, at most amount
	facilitator  TEXT NOT NULL DEFAULT '',     -- of a permit of scheme upto
	amount       BIGINT NOT NULL CHECK (amount > 0),
	fee          BIGINT NOT NULL CHECK (fee >= 0 AND fee <= amount),
	valid_after  BIGINT NOT NULL,
	valid_before BIGINT NOT NULL,
	signature    BYTEA NOT NULL,
	request      TEXT COLLATE "C" NOT NULL,    -- that it pays for
	holder       TEXT COLLATE "C" NOT NULL,    -- the gateway that serves the request
	service      TEXT COLLATE "C" NOT NULL CHECK (service IN ('serving', 'served', 'released')),
	settlement   TEXT COLLATE "C" NOT NULL CHECK (settlement IN ('none', 'settling', 'confirmed', 'final', 'failed')),
	charge       BIGINT NOT NULL DEFAULT 0,    -- what the request cost, once it was served
	captured     BIGINT NOT NULL DEFAULT 0 CHECK (captured >= 0 AND captured <= amount), -- what is moved, once it was served
	booked       INTEGER NOT NULL DEFAULT 0,   -- the ledger has the credit and the charge
	lost         INTEGER NOT NULL DEFAULT 0,   -- the ledger has the loss of a failed settlement
	from_block   BIGINT NOT NULL DEFAULT 0,    -- the chain's head when it was verified
	tx           TEXT NOT NULL DEFAULT '',     -- the transaction that moved the money, or that is to
	block        BIGINT NOT NULL DEFAULT 0,
	block_hash   TEXT NOT NULL DEFAULT '',
	reason       TEXT NOT NULL DEFAULT '',     -- why the last attempt to settle failed
	attempts     INTEGER NOT NULL DEFAULT 0,   -- to settle, that failed
	look_at      BIGINT NOT NULL DEFAULT 0,    -- when the chain is asked next whether a released payment was moved all the same; 0: it is not
	debt         BIGINT NOT NULL DEFAULT 0,    -- what of the payer's debt it is to pay, until it is booked
	kept         INTEGER NOT NULL DEFAULT 0,   -- 1: it was released, somebody else moved it, and it is the payer's credit
	at           BIGINT NOT NULL,
	changed      BIGINT NOT NULL,
	UNIQUE (network, asset, payer, nonce)
);

CREATE INDEX payment_request ON payment (request);
CREATE INDEX payment_payer ON payment (payer, settlement);
CREATE INDEX payment_open ON payment (holder) WHERE service = 'serving' OR service = 'served' AND booked = 0;
CREATE INDEX payment_look ON payment (look_at) WHERE look_at > 0;
CREATE INDEX payment_due ON payment (id) WHERE settlement IN ('settling', 'confirmed') OR settlement = 'none' AND service = 'served';
CREATE INDEX payment_unwritten ON payment (id) WHERE settlement = 'failed' AND lost = 0;

-- The transactions that were signed for a payment, written before they are sent. Those of one slot replace each other.
CREATE TABLE sent (
	hash    TEXT COLLATE "C" PRIMARY KEY,
	payment BIGINT NOT NULL REFERENCES payment (id),
	slot    BIGINT NOT NULL,  -- the number of the transaction in the settling account
	raw     BYTEA NOT NULL,
	tip     TEXT NOT NULL,
	cap     TEXT NOT NULL,
	open    INTEGER NOT NULL, -- 0: it failed, or its payment is over
	at      BIGINT NOT NULL
);

CREATE INDEX sent_payment ON sent (payment);
CREATE INDEX sent_slot ON sent (slot);
