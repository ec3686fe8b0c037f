package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// Charge is the usage and cost of one request.
type Charge struct {
	RequestID string
	Account   policy.Account // "" for an anonymous request
	Amount    policy.Micro   // what it costs the account

	ProviderCost policy.Pico // what it costs the operator, exact
	Tokens       Tokens

	Provider  policy.ProviderID
	Model     policy.ModelID
	Subsystem string
	Status    string    // how the request ended (record.OK, …)
	Record    []byte    // the request's record as JSON
	At        time.Time // zero means now

	// The budget that it counts toward, see SpentByPart.
	Agent string // id of the agent within the key; "" if not given
	Part  string // the agent's part; "" means no budget

	Staked policy.Micro // paid by the operator's staked credit, see PartStake
}

// Tokens are a request's tokens. Input excludes tokens read from or written to a cache; Output includes Reasoning.
type Tokens struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
}

// Receipt is the result of a charge.
type Receipt struct {
	Charged  policy.Micro // what the account paid
	Loss     policy.Micro // what it could not pay: a loss of the operator; the key is blocked until a deposit
	Balance  policy.Micro // the balance afterwards, including reservations of other requests
	Repeated bool         // the request was charged before and not again
	Late     bool         // the charge is deferred, because the store cannot be written; the other fields are expected values
}

// Capture charges a request to its hold, which ends, and returns once that is durable. The charge's RequestID and Account are the hold's. A charge
// above the hold takes from the rest of the balance, and what that cannot pay is recorded as a loss. A request id is charged once: repeating it
// returns the first receipt. Capture does not stop when the context ends, so that a client that disconnects still pays. After an error the hold
// is still open.
//
// While the store cannot be written, the charge is deferred, on disk if possible, and written later. Its hold is kept until then. The error is an
// *UnwritableError if too many are deferred.
func (l *Ledger) Capture(ctx context.Context, h *Hold, c Charge) (Receipt, error) {
	c.RequestID, c.Account = h.request, h.account.name
	r, err := l.capture(context.WithoutCancel(ctx), h, l.complete(c))
	if err != nil {
		return Receipt{}, fmt.Errorf("capture request %s: %w", h.request, err)
	}
	return r, nil
}

func (l *Ledger) capture(ctx context.Context, h *Hold, c Charge) (Receipt, error) {
	if err := c.check(); err != nil {
		return Receipt{}, err
	}
	var r Receipt // for a deferred charge it is set after the return
	h.beginCapture(c.Amount, l.o.Now())
	done := func(err error) { h.endCapture(c.Amount, dayOf(c.At), r, err) }
	if more := c.Amount - h.Amount(); more > 0 {
		if err := l.grow(ctx, h, more, false); err != nil && !isUnwritable(err) {
			done(err)
			return Receipt{}, err
		}
	}
	n := &note{Charge: &c, Prepaid: true, Hold: h.Amount()}
	err := l.writer.await(&op{
		apply:      func(b *book) (err error) { r, err = b.captureHold(c, h); return err },
		done:       func(err error) { l.waiting.remove(c.RequestID); done(err) },
		note:       n,
		onDeferred: func() { l.waiting.add(c) },
	})
	if errors.Is(err, errDeferred) {
		return h.expectedReceipt(c.Amount), nil
	}
	return r, err
}

// Record stores a request that no balance pays for: of a metered key or without a key. It is written asynchronously within Options.Flush, or after
// an outage; Request returns it immediately. A request id is recorded once. The error is ErrAmount, ErrClosed, or an *UnwritableError if too
// many are deferred.
func (l *Ledger) Record(c Charge) error {
	c = l.complete(c)
	if err := c.check(); err != nil {
		return fmt.Errorf("record request %s: %w", c.RequestID, err)
	}
	a := l.account(c.Account)
	a.mu.Lock()
	a.spent.begin(c.Amount)
	a.mu.Unlock()
	var charged policy.Micro
	end := func(err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil {
			charged = 0
		}
		a.spent.end(c.Amount, charged, dayOf(c.At))
	}
	l.waiting.add(c)
	err := l.writer.enqueue(&op{
		apply: func(b *book) (err error) { charged, err = b.record(c); return err },
		done:  func(err error) { l.waiting.remove(c.RequestID); end(err) },
		note:  &note{Charge: &c},
	})
	if err != nil {
		l.waiting.remove(c.RequestID)
		end(err)
		return fmt.Errorf("record request %s: %w", c.RequestID, err)
	}
	return nil
}

func (l *Ledger) complete(c Charge) Charge {
	if c.At.IsZero() {
		c.At = l.o.Now()
	}
	return c
}

func (c Charge) check() error {
	if c.Amount < 0 || c.Amount > maxAmount || c.ProviderCost < 0 {
		return fmt.Errorf("%w: %s USD, cost %s USD", ErrAmount, c.Amount, c.ProviderCost)
	}
	return nil
}

// captureHold charges a request to its hold.
func (b *book) captureHold(c Charge, h *Hold) (r Receipt, err error) {
	account := h.account.number()
	if account == 0 { // the store's file was replaced since the hold was made
		if account, err = b.accountOf(c.Account); err != nil {
			return Receipt{}, err
		}
	}
	return b.capture(c, from{account, b.instance, h.Amount()})
}

// from is the source of a charge: an account, and the part of the gateway's block that is held for the request.
type from struct {
	account, instance int64
	hold              policy.Micro
}

// accountOf is an account's id in the store.
func (b *book) accountOf(name policy.Account) (id int64, err error) {
	err = b.row(`SELECT id FROM account WHERE name = ?`, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknownKey
	}
	return id, err
}

// capture charges a request to an account.
func (b *book) capture(c Charge, f from) (Receipt, error) {
	if r, ok, err := b.repeated(c, f.account); ok || err != nil {
		return r, err
	}
	paid, balance, err := b.pay(c.Amount, f)
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{Charged: paid, Loss: c.Amount - paid, Balance: balance}
	var journal sql.NullInt64
	if c.Amount > 0 {
		journal.Valid = true
		if journal.Int64, err = b.charge(c, f.account, r); err != nil {
			return Receipt{}, err
		}
	}
	_, err = b.addRequest(c, journal, r.Charged)
	return r, err
}

// pay takes an amount out of a balance and returns the remaining balance. The held part comes out of the gateway's block; the rest, or all of it
// if others considered this gateway dead and returned its block, comes out of what no block holds.
func (b *book) pay(amount policy.Micro, f from) (paid, left policy.Micro, err error) {
	if amount == 0 {
		left, err = b.micro(f.account)
		return 0, left, err
	}
	held := min(amount, f.hold)
	n, err := b.exec(`UPDATE block SET micro = micro - ?1 WHERE account = ?2 AND instance = ?3 AND micro >= ?1`, held, f.account, f.instance)
	if err != nil {
		return 0, 0, err
	}
	if n == 0 {
		held = 0
	}
	if held < amount {
		var available policy.Micro
		if err := b.row(`SELECT micro - held + credit FROM balance WHERE account = ?`, f.account).Scan(&available); err != nil {
			return 0, 0, err
		}
		amount = held + max(0, min(amount-held, available))
	}
	err = b.row(`UPDATE balance SET micro = micro - ?, held = held - ? WHERE account = ? RETURNING micro`, amount, held, f.account).Scan(&left)
	return amount, left, err
}

// micro is the balance of an account.
func (b *book) micro(account int64) (m policy.Micro, err error) {
	err = b.row(`SELECT micro FROM balance WHERE account = ?`, account).Scan(&m)
	return m, err
}

// repeated returns the receipt of an earlier charge of the request.
func (b *book) repeated(c Charge, account int64) (Receipt, bool, error) {
	amount, charged, ok, err := b.before(c)
	if !ok || err != nil {
		return Receipt{}, ok, err
	}
	balance, err := b.micro(account)
	return Receipt{Charged: charged, Loss: amount - charged, Balance: balance, Repeated: true}, true, err
}

// before finds an earlier charge of a request. The error is ErrReused if it was of another account.
func (b *book) before(c Charge) (amount, charged policy.Micro, ok bool, err error) {
	var account policy.Account
	err = b.row(`SELECT account, amount, charged FROM request WHERE id = ?`, c.RequestID).Scan(&account, &amount, &charged)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, false, nil
	}
	if err == nil && account != c.Account {
		err = ErrReused
	}
	return amount, charged, true, err
}

// charge writes the journal of a request: revenue from the key and, for what it could not pay, from the loss account.
func (b *book) charge(c Charge, account int64, r Receipt) (int64, error) {
	journal, err := b.addJournal("charge", "request:"+c.RequestID, c.RequestID, c.At, []entry{
		{account, -r.Charged}, {accountRevenue, c.Amount}, {accountLoss, -r.Loss},
	})
	if err != nil || r.Loss == 0 {
		return journal, err
	}
	_, err = b.exec(`UPDATE balance SET blocked = 1 WHERE account = ?`, account)
	return journal, err
}

// record writes a request without moving money, and returns the amount that counts as spent.
func (b *book) record(c Charge) (policy.Micro, error) {
	added, err := b.addRequest(c, sql.NullInt64{}, c.Amount)
	if added || err != nil {
		return c.Amount, err
	}
	_, _, _, err = b.before(c)
	return 0, err
}

// addRequest writes a request's row and adds it to the totals, unless its id exists.
func (b *book) addRequest(c Charge, journal sql.NullInt64, charged policy.Micro) (added bool, err error) {
	t := c.Tokens
	n, err := b.exec(`INSERT INTO request (id, account, journal, at, provider, model, subsystem, status,
	input, cached, cache_write, output, reasoning, amount, charged, provider_cost, record)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		c.RequestID, c.Account, journal, c.At.UnixMicro(), c.Provider, c.Model, c.Subsystem, c.Status,
		t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning, c.Amount, charged, c.ProviderCost, c.Record)
	if n == 0 || err != nil {
		return false, err
	}
	b.sums.add(c, charged)
	b.spending.add(c, charged)
	return true, nil
}

// dayOf is the UTC day of a time, in days since 1970.
func dayOf(t time.Time) int64 {
	const day = 24 * 60 * 60
	s := t.Unix()
	if s < 0 {
		return (s - day + 1) / day
	}
	return s / day
}
