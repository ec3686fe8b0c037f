package outgoing

import (
	"errors"
	"testing"

	"bardo.money/gateway/policy/pay"
)

// TestWalletsAndPurposesHaveNothingInCommon: neither open authorizations nor spending.
func TestWalletsAndPurposesHaveNothingInCommon(t *testing.T) {
	b, _ := newBook(t)
	mustAdd(t, b, signed("r", 100, 1), 150)
	ofOther := signed("r", 100, 2)
	ofOther.From = pay.Address{7}
	mustAdd(t, b, ofOther, 150)
	forOther := signed("r", 100, 3)
	forOther.Purpose = "command"
	mustAdd(t, b, forOther, 150)
	for _, a := range []*Authorization{signed("r", 100, 1), ofOther, forOther} {
		got, ok, err := b.Unresolved(t.Context(), a.From, a.Purpose, "r")
		if err != nil || !ok || got.Nonce != a.Nonce {
			t.Errorf("%s for %s: %+v, %v, %v", a.From, a.Purpose, got, ok, err)
		}
		if spent, err := b.Spent(t.Context(), a.From, a.Purpose); err != nil || spent != 100 {
			t.Errorf("%s for %s has spent %s, %v", a.From, a.Purpose, spent, err)
		}
	}
	if _, ok, err := b.Unresolved(t.Context(), pay.Address{8}, "provider", "r"); ok || err != nil {
		t.Errorf("a doubt of a wallet that has paid nothing: %v", err)
	}
	again := signed("r", 40, 4)
	again.From = ofOther.From
	var doubt *UnresolvedError
	if err := b.Add(t.Context(), again, 150); !errors.As(err, &doubt) || doubt.First.Nonce != ofOther.Nonce {
		t.Errorf("a second one: %v", err)
	}
}

// TestTheFileHasOneOpenPaymentForARequest, whoever writes it.
func TestTheFileHasOneOpenPaymentForARequest(t *testing.T) {
	b, _ := newBook(t)
	a := signed("r", 100, 1)
	mustAdd(t, b, a, 0)
	const again = `INSERT INTO payment (purpose, request, network, asset, payer, nonce, pay_to, upto, amount, paid, valid_before, header, state, at, changed)
	SELECT purpose, request, network, asset, payer, 'another', pay_to, upto, amount, paid, valid_before, header, ?, at, changed FROM payment WHERE id = 1`
	if _, err := b.db.ExecContext(t.Context(), again, Open); err == nil {
		t.Error("a second one is open")
	}
	if _, err := b.db.ExecContext(t.Context(), again, Unused); err != nil {
		t.Errorf("one that is not: %v", err)
	}
}

// TestAnAnswerEndsADoubt: the reason for the doubt is removed.
func TestAnAnswerEndsADoubt(t *testing.T) {
	b, _ := newBook(t)
	a := signed("r", 100, 1)
	mustAdd(t, b, a, 0)
	if err := errors.Join(b.Fail(t.Context(), a.ID, "no answer"), b.Answer(t.Context(), a.ID, "0x1")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Find(t.Context(), a.ID); err != nil || got.Reason != "" || got.Header != "" || got.State != Answered || got.Tx != "0x1" {
		t.Errorf("%+v, %v", got, err)
	}
}
