package onchain

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// payer pays one provider's calls.
type payer struct {
	wallet     *client.Wallet
	provider   policy.ProviderID
	log        *slog.Logger
	unresolved *lru.Cache[string, struct{}] // exchanges with a payment whose call was not answered: they are not paid for again
}

// maxUnresolved is how many exchanges are remembered. An exchange lasts minutes.
const maxUnresolved = 1 << 14

var errUnresolved = errors.New("an earlier call of this request was paid for and not answered: it is not paid for again")

// Pay implements runtime.Payer.
func (p *payer) Pay(ctx context.Context, c *runtime.PaidCall) (*http.Response, policy.Micro, error) {
	if p.unresolved.Contains(c.Exchange) {
		return nil, 0, &runtime.UnpaidError{Err: errUnresolved}
	}
	r := &client.Request{Name: c.Exchange + "/" + c.Model, Once: true, MaxPrice: c.MaxCost, SimilarKey: c.Model, Size: c.Estimate}
	resp, paid, err := p.wallet.Do(ctx, r, c.Send)
	amount := policy.Micro(0)
	if paid != nil {
		amount = paid.Value
		p.record(c, paid)
	}
	if err != nil && (paid != nil || isRefusal(err)) {
		p.log.Warn("a call was not paid for, or not answered", "provider", string(p.provider), "request", c.Exchange, "model", c.Model, "error", err)
		err = &runtime.UnpaidError{Err: err}
	}
	return resp, amount, err
}

// record remembers a payment whose call was not answered.
func (p *payer) record(c *runtime.PaidCall, paid *client.Payment) {
	if paid.State == outgoing.Open {
		p.unresolved.Add(c.Exchange, struct{}{})
	}
}

// Unserved implements runtime.Payer.
func (p *payer) Unserved(exchange string) { p.unresolved.Add(exchange, struct{}{}) }

// isRefusal reports whether nothing was signed, because of the rules or the state of the book.
func isRefusal(err error) bool {
	return isA[*client.Refusal](err) || isA[*outgoing.CapError](err) || isA[*outgoing.UnresolvedError](err)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
