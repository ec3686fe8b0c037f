package remote

import (
	"context"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// node is a chain with fixed answers, which records the calls.
type node struct {
	err   error
	asked any
	right bool
}

var (
	_ pay.Chain   = (*node)(nil)
	_ pay.Settler = (*node)(nil)
)

func (n *node) Check(context.Context) error { n.right = n.err == nil; return n.err }
func (n *node) UpTo() (pay.Address, bool)   { return pay.Address{8}, n.right }
func (*node) Signed(*pay.Payment) bool      { panic("the client knows") }

func (n *node) Verify(_ context.Context, p *pay.Payment) error { n.asked = *p; return n.err }

func (n *node) Head(context.Context) (pay.Block, error) {
	return pay.Block{Number: 7, Time: time.Unix(1_800_000_000, 0).UTC()}, n.err
}
func (n *node) Slot(context.Context) (uint64, error) { return 9, n.err }

func (n *node) Prepare(_ context.Context, t *pay.Transfer, slot uint64, minFees pay.Fees) (*pay.Transaction, error) {
	n.asked = prepareRequest{*t, slot, minFees}
	return &pay.Transaction{Hash: pay.Word{1}, Slot: slot, Raw: []byte{2}, Fees: pay.Fees{Tip: big.NewInt(3), Cap: big.NewInt(4)}}, n.err
}
func (n *node) Send(_ context.Context, raw []byte) error { n.asked = raw; return n.err }

func (n *node) Receipt(_ context.Context, hash pay.Word, t *pay.Transfer) (pay.Receipt, bool, error) {
	n.asked = receiptRequest{hash, *t}
	return pay.Receipt{Block: 5, BlockHash: pay.Word{6}, Succeeded: true, Paid: true}, true, n.err
}

func (n *node) Used(_ context.Context, a *pay.Authorization) (bool, error) {
	n.asked = *a
	return true, n.err
}

func (n *node) FindTransfer(_ context.Context, t *pay.Transfer, from uint64) (pay.Word, bool, error) {
	n.asked = findRequest{*t, from}
	return pay.Word{7}, true, n.err
}

func (n *node) Mark(_ context.Context, hash pay.Word) (pay.Mark, error) {
	n.asked = hash
	return pay.NewMark(3), n.err
}
func (n *node) Affords(context.Context) (int64, error) { return 11, n.err }

func (n *node) Settle(_ context.Context, t *pay.Transfer) (pay.Word, error) {
	n.asked = *t
	return pay.Word{12}, n.err
}

var terms = &pay.Terms{Network: pay.Network{ID: 84532, Name: "base-sepolia"}, Asset: pay.Token{Address: pay.Address{5}, Name: "USD Coin", Version: "2"}}

// start serves a node at a socket until stop is called.
func start(t *testing.T, n *node) (c *Client, stop func()) {
	t.Helper()
	socket, stop := listen(t, Handler(n, n, nil, nil))
	c = NewClient(socket, terms)
	t.Cleanup(c.Close)
	return c, stop
}

// listen serves at a socket until stop is called.
func listen(t *testing.T, h http.Handler) (socket string, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "chain") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "c.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Serve(l) })
	stop = sync.OnceFunc(func() { _ = srv.Close(); running.Wait() })
	t.Cleanup(stop)
	return socket, stop
}

func payment() *pay.Payment {
	return &pay.Payment{Version: 2, Signature: []byte{1, 2, 3}, Quote: "q", Authorization: pay.Authorization{
		From: pay.Address{1}, To: pay.Address{2}, Value: 123_456_789, ValidAfter: 1, ValidBefore: 1 << 40, Nonce: pay.Word{31: 4}, UpTo: true, Facilitator: pay.Address{9},
	}}
}

// calls are all methods of a chain and its settler, each with the value that the node must get; methods of both appear once.
func calls(ctx context.Context, c *Client) map[string]func() (got, asked any, err error) {
	p := payment()
	move := &pay.Transfer{Authorization: p.Authorization, Amount: 5, Signature: p.Signature, Mark: pay.NewMark(4)}
	minFees := pay.Fees{Tip: big.NewInt(1), Cap: big.NewInt(1 << 62)}
	return map[string]func() (got, asked any, err error){
		"Verify": func() (got, asked any, err error) { return nil, *p, c.Verify(ctx, p) },
		"Head":   func() (got, asked any, err error) { got, err = c.Head(ctx); return got, nil, err },
		"Slot":   func() (got, asked any, err error) { got, err = c.Slot(ctx); return got, nil, err },
		"Send":   func() (got, asked any, err error) { return nil, []byte{7}, c.Send(ctx, []byte{7}) },
		"Used": func() (got, asked any, err error) {
			got, err = c.Used(ctx, &p.Authorization)
			return got, p.Authorization, err
		},
		"Affords": func() (got, asked any, err error) { got, err = c.Affords(ctx); return got, nil, err },
		"Prepare": func() (got, asked any, err error) {
			tx, err := c.Prepare(ctx, move, 3, minFees)
			if err != nil {
				return nil, nil, err
			}
			return *tx, prepareRequest{*move, 3, minFees}, nil
		},
		"Receipt": func() (got, asked any, err error) {
			r, ok, err := c.Receipt(ctx, pay.Word{3}, move)
			return optional[pay.Receipt]{r, ok}, receiptRequest{pay.Word{3}, *move}, err
		},
		"FindTransfer": func() (got, asked any, err error) {
			r, ok, err := c.FindTransfer(ctx, move, 8)
			return optional[pay.Word]{r, ok}, findRequest{*move, 8}, err
		},
		"Mark":           func() (got, asked any, err error) { got, err = c.Mark(ctx, pay.Word{3}); return got, pay.Word{3}, err },
		"Settler.Verify": func() (got, asked any, err error) { return nil, *p, c.Settler().Verify(ctx, p) },
		"Settle":         func() (got, asked any, err error) { got, err = c.Settler().Settle(ctx, move); return got, *move, err },
	}
}

var wants = map[string]any{
	"Head": pay.Block{Number: 7, Time: time.Unix(1_800_000_000, 0).UTC()}, "Slot": uint64(9), "Used": true, "Affords": int64(11),
	"Prepare":      pay.Transaction{Hash: pay.Word{1}, Slot: 3, Raw: []byte{2}, Fees: pay.Fees{Tip: big.NewInt(3), Cap: big.NewInt(4)}},
	"Receipt":      optional[pay.Receipt]{pay.Receipt{Block: 5, BlockHash: pay.Word{6}, Succeeded: true, Paid: true}, true},
	"Mark":         pay.NewMark(3),
	"FindTransfer": optional[pay.Word]{pay.Word{7}, true}, "Settle": pay.Word{12},
}

// TestD89WhatIsAskedThroughTheSocketIsWhatTheNodeIsAsked, and its results are returned unchanged.
func TestD89WhatIsAskedThroughTheSocketIsWhatTheNodeIsAsked(t *testing.T) {
	n := &node{}
	c, _ := start(t, n)
	for name, call := range calls(t.Context(), c) {
		n.asked = nil
		got, asked, err := call()
		if err != nil || !reflect.DeepEqual(got, wants[name]) || !reflect.DeepEqual(n.asked, asked) {
			t.Errorf("%s: %+v, want %+v; asked %+v, want %+v; %v", name, got, wants[name], n.asked, asked, err)
		}
	}
}

// TestWhatDecidesOfAPaymentComesThrough: refusals, reverts and mismatches keep their types, and errors of the node their text.
func TestWhatDecidesOfAPaymentComesThrough(t *testing.T) {
	n := &node{}
	c, _ := start(t, n)
	for _, want := range []error{&pay.Refusal{Reason: pay.ReasonFunds, Detail: "too little"}, &pay.Revert{Reason: "paused"}, &pay.Mismatch{Detail: "another chain"}, errors.New("it did not answer in time")} {
		n.err = want
		for name, call := range calls(t.Context(), c) {
			if _, _, err := call(); !reflect.DeepEqual(err, want) {
				t.Errorf("%s: %#v, want %#v", name, err, want)
			}
		}
		if err := c.Check(t.Context()); !reflect.DeepEqual(err, want) {
			t.Errorf("Check: %#v, want %#v", err, want)
		}
		if err := c.Settler().Check(t.Context()); !reflect.DeepEqual(err, want) {
			t.Errorf("Settler.Check: %#v, want %#v", err, want)
		}
	}
}

// TestUpToIsWhatTheLastCheckFound: before the first check, upto is not offered.
func TestUpToIsWhatTheLastCheckFound(t *testing.T) {
	n := &node{err: errors.New("down")}
	c, stop := start(t, n)
	if _, ok := c.UpTo(); ok {
		t.Error("it is offered before anybody was asked")
	}
	if err := c.Check(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, ok := c.UpTo(); ok {
		t.Error("it is offered by a node that is down")
	}
	n.err = nil
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, ok := c.UpTo(); !ok || a != (pay.Address{8}) {
		t.Error(a, ok)
	}
	stop()
	for name, call := range calls(t.Context(), c) {
		if _, _, err := call(); !errors.Is(err, errUnavailable) || isA[*pay.Refusal](err) || isA[*pay.Revert](err) {
			t.Errorf("%s of a process that is away: %v", name, err)
		}
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// TestAServerReadsNothingElse than requests of a bounded size.
func TestAServerReadsNothingElse(t *testing.T) {
	n := &node{}
	c, _ := start(t, n)
	for _, body := range []string{"", "x", strings.Repeat("\xff", 100), strings.Repeat("x", maxMessage+1)} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://chain/"+methodVerify, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || n.asked != nil {
			t.Errorf("%.10q: %d, asked %v", body, resp.StatusCode, n.asked)
		}
	}
	if err := c.Send(t.Context(), make([]byte, maxMessage)); !errors.Is(err, errUnavailable) {
		t.Errorf("a transaction beyond the bound: %v", err)
	}
}

// TestPitfall3TheClientKnowsWhoSigned, like the node.
func TestPitfall3TheClientKnowsWhoSigned(t *testing.T) {
	c := NewClient("none", terms)
	key := secp256k1.PrivKeyFromBytes([]byte(strings.Repeat("1", 32)))
	sum := typed.Keccak256(key.PubKey().SerializeUncompressed()[1:])
	p := payment()
	p.From = pay.Address(sum[12:])
	digest := typed.Digest(terms.Asset, terms.Network.ID, &p.Authorization)
	compact := ecdsa.SignCompact(key, digest[:], false)
	p.Signature = append(append([]byte(nil), compact[1:]...), compact[0])
	if !c.Signed(p) {
		t.Error("the payer's own signature")
	}
	q := *p
	if q.Value++; c.Signed(&q) {
		t.Error("another amount")
	}
	q = *p
	if q.Signature = q.Signature[:64]; c.Signed(&q) {
		t.Error("a short signature")
	}
	q = *p
	if q.From[0]++; c.Signed(&q) {
		t.Error("another payer")
	}
}
