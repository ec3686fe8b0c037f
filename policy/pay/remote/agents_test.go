package remote

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
)

// registry has fixed answers, and records the calls.
type registry struct {
	err   error
	asked any
}

func (r *registry) Check(context.Context) error { return r.err }

func (r *registry) Agent(_ context.Context, id pay.Word) (identity.Agent, error) {
	r.asked = id
	return identity.Agent{Owner: pay.Address{1}, Wallet: pay.Address{2}}, r.err
}

func (r *registry) Score(_ context.Context, id pay.Word) (int64, error) {
	r.asked = id
	return 50, r.err
}

func (*registry) Recover(pay.Word, []byte) (pay.Address, bool) { panic("the client knows") }

func (r *registry) Confirms(_ context.Context, wallet pay.Address, digest pay.Word, signature []byte) (bool, error) {
	r.asked = confirmRequest{wallet, digest, signature}
	return true, r.err
}

// TestD89WhatIsAskedOfAgentsIsWhatTheRegistriesAreAsked: calls, results and typed errors are forwarded unchanged.
func TestD89WhatIsAskedOfAgentsIsWhatTheRegistriesAreAsked(t *testing.T) {
	r := &registry{}
	socket, stop := listen(t, Handler(nil, nil, r, nil))
	a := NewAgents(socket)
	t.Cleanup(a.Close)
	id, mine := pay.Word{31: 0}, confirmRequest{pay.Address{3}, pay.Word{4}, []byte{5}}
	calls := map[string]struct {
		do         func() (any, error)
		got, asked any
	}{
		"Check":    {func() (any, error) { return nil, a.Check(t.Context()) }, nil, nil},
		"Agent":    {func() (any, error) { return a.Agent(t.Context(), id) }, identity.Agent{Owner: pay.Address{1}, Wallet: pay.Address{2}}, id},
		"Score":    {func() (any, error) { return a.Score(t.Context(), id) }, int64(50), id},
		"Confirms": {func() (any, error) { return a.Confirms(t.Context(), mine.Wallet, mine.Digest, mine.Signature) }, true, mine},
	}
	for _, want := range []error{nil, identity.ErrNoAgent, &pay.Mismatch{Detail: "another chain"}, errors.New("down")} {
		r.err = want
		for name, c := range calls {
			r.asked = nil
			got, err := c.do()
			if !reflect.DeepEqual(err, want) || !reflect.DeepEqual(r.asked, c.asked) || want == nil && !reflect.DeepEqual(got, c.got) {
				t.Errorf("%s: %v, asked %v, %v, want %v", name, got, r.asked, err, want)
			}
		}
	}
	stop()
	for name, c := range calls {
		if _, err := c.do(); !errors.Is(err, errUnavailable) {
			t.Errorf("%s of a process that is away: %v", name, err)
		}
	}
	c := NewClient(socket, terms)
	t.Cleanup(c.Close)
	if _, err := c.Head(t.Context()); err == nil {
		t.Error("a process without a chain answers")
	}
}
