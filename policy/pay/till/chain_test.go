package till

import (
	"context"
	"errors"
	"math/big"
	"sync"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// fakeChain is a chain in memory, with one block per transaction.
type fakeChain struct {
	mu       sync.Mutex
	now      time.Time
	height   uint64
	behind   uint64 // number of newest blocks that receipts and states do not show
	slot     uint64
	mined    map[pay.Word]pay.Receipt
	by       map[pay.Word]pay.Address // payer of a transaction's authorization
	used     map[pay.Word]pay.Word    // transaction by nonce of the authorization; zero: cancelled
	revert   string
	sends    bool // sent transactions are mined
	fails    bool // sent transactions are mined, and move nothing
	down     bool
	prepared int
	moved    policy.Micro // amount of signed transfers
	made     []pay.Word   // nonces of the authorizations whose transfers were signed or ordered
	fees     []int64
	marks    map[pay.Word]pay.Mark // of transactions
	asked    int                   // queries of states
	sent     int                   // sent transactions, with repetitions
}

var errDown = errors.New("down")

func (c *fakeChain) Check(context.Context) error            { return nil }
func (c *fakeChain) UpTo() (pay.Address, bool)              { return pay.Address{8}, true }
func (c *fakeChain) Signed(*pay.Payment) bool               { return true }
func (c *fakeChain) Affords(context.Context) (int64, error) { return 7, nil }

// shows returns the transaction that used an authorization, if the node, which may lag, has it. Cancellations are in no block here.
func (c *fakeChain) shows(nonce pay.Word) (by pay.Word, ok bool) {
	by, ok = c.used[nonce]
	if r, mined := c.mined[by]; ok && mined && r.Block+c.behind > c.height {
		return pay.Word{}, false
	}
	return by, ok
}

// Verify refuses used authorizations, like a token.
func (c *fakeChain) Verify(_ context.Context, p *pay.Payment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by, ok := c.shows(p.Nonce); ok && c.by[by] == p.From {
		return p.Refuse(pay.ReasonNonceUsed, "used")
	}
	return nil
}

func (c *fakeChain) Head(context.Context) (pay.Block, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return pay.Block{}, errDown
	}
	return pay.Block{Number: c.height, Time: c.now}, nil
}

func (c *fakeChain) Slot(context.Context) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slot, nil
}

func (c *fakeChain) Prepare(_ context.Context, a *pay.Transfer, slot uint64, minFees pay.Fees) (*pay.Transaction, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.shows(a.Nonce); ok || c.revert != "" {
		return nil, &pay.Revert{Reason: c.revert}
	}
	c.prepared++
	c.made = append(c.made, a.Nonce)
	c.by[pay.Word{byte(c.prepared), a.Nonce[0]}] = a.From
	c.moved += a.Amount
	fee := big.NewInt(100)
	if minFees.Cap != nil && minFees.Cap.Cmp(fee) > 0 {
		fee = minFees.Cap
	}
	c.fees = append(c.fees, fee.Int64())
	return &pay.Transaction{Hash: pay.Word{byte(c.prepared), a.Nonce[0]}, Slot: slot, Raw: []byte{byte(c.prepared), a.Nonce[0]}, Fees: pay.Fees{Tip: fee, Cap: fee}}, nil
}

func (c *fakeChain) Send(_ context.Context, raw []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	switch hash := (pay.Word{raw[0], raw[1]}); {
	case c.fails:
		c.height++
		c.slot++
		c.mined[hash] = pay.Receipt{Block: c.height, BlockHash: pay.Word{byte(c.height)}}
	case c.sends:
		c.put(hash, pay.Word{raw[1]})
	}
	return nil
}

// ordered notes a transfer that a facilitator is asked for.
func (c *fakeChain) ordered(nonce pay.Word) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, nonce)
}

// mine adds a block with a transaction that uses an authorization.
func (c *fakeChain) mine(hash, nonce pay.Word) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(hash, nonce)
}

func (c *fakeChain) put(hash, nonce pay.Word) {
	if _, ok := c.used[nonce]; ok {
		return
	}
	c.height++
	c.slot++
	c.used[nonce] = hash
	c.mined[hash] = pay.Receipt{Block: c.height, BlockHash: pay.Word{byte(c.height)}, Succeeded: true, Paid: true}
}

func (c *fakeChain) Receipt(_ context.Context, hash pay.Word, _ *pay.Transfer) (pay.Receipt, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.mined[hash]
	if ok && r.Block+c.behind > c.height {
		return pay.Receipt{}, false, nil
	}
	return r, ok, nil
}

func (c *fakeChain) Used(_ context.Context, a *pay.Authorization) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	_, ok := c.shows(a.Nonce)
	return ok, nil
}

func (c *fakeChain) FindTransfer(_ context.Context, a *pay.Transfer, from uint64) (pay.Word, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hash, _ := c.shows(a.Nonce)
	return hash, hash != (pay.Word{}) && c.mined[hash].Block >= from, nil
}

func (c *fakeChain) Mark(_ context.Context, hash pay.Word) (pay.Mark, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks[hash], nil
}
