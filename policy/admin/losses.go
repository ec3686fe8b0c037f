package admin

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// ForgiveRequest selects the losses to forgive: that of one request, or all of a wallet.
type ForgiveRequest struct {
	Request Field[string] `json:"request_id,omitzero"`
	Payer   Field[string] `json:"payer,omitzero"` // a wallet's address
	Reason  Field[string] `json:"reason,omitzero"`
}

// Wallet is a wallet some of whose payments failed.
type Wallet struct {
	Address string
	Account policy.Account
	Failed  []Failed // the oldest first
}

// Failed is a payment that never arrived.
type Failed struct{ Request, Ref string }

// ForgiveResult is the forgiven amount, and what the wallet still owes.
type ForgiveResult struct {
	Payer    string       `json:"payer"`
	Amount   policy.Micro `json:"forgiven_usd"` // by this change
	Repeated bool         `json:"repeated"`     // everything was forgiven before; nothing changed
	Losses   []Loss       `json:"losses"`
	Owed     policy.Micro `json:"owed_usd"`        // by the wallet
	Rest     []Loss       `json:"rest,omitempty"`  // the losses that remain
	Unbooked []string     `json:"later,omitempty"` // requests whose payments failed and whose losses are not booked yet
}

// Loss is a payment that never arrived, as the ledger has it.
type Loss struct {
	Request     string              `json:"request_id"`
	Cost        policy.Micro        `json:"cost_usd"` // of the request, with the fee
	Owed        policy.Micro        `json:"owed_usd"` // of it
	Forgiveness *ledger.Forgiveness `json:"forgiven,omitempty"`
}

const maxReason = 500 // bytes

// Forgive forgives losses. Repeating it changes nothing: the first reason stays. A payment that did not fail, or whose loss is not booked yet, is a
// Conflict.
func (s *Service) Forgive(ctx context.Context, f *ForgiveRequest, via string) (ForgiveResult, error) {
	reason := f.Reason.Value
	switch {
	case f.Request.Given == f.Payer.Given:
		return ForgiveResult{}, invalid("request_id", ": give it, or payer, and not both")
	case f.Request.Given && (f.Request.Value == "" || !isPlain(f.Request.Value)):
		return ForgiveResult{}, invalid("request_id", " is the id of no request")
	case strings.TrimSpace(reason) == "":
		return ForgiveResult{}, invalid("reason", " is empty: say why, for whoever looks at the books later")
	case len(reason) > maxReason || strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return ForgiveResult{}, invalid("reason", " is longer than %d bytes, or holds a character that cannot be printed", maxReason)
	case s.Wallet == nil:
		return ForgiveResult{}, fault.New(fault.NotFound, "no payments are taken here", nil)
	}
	w, err := s.Wallet(ctx, f.Request.Value, f.Payer.Value)
	if err != nil {
		return ForgiveResult{}, err
	}
	which := ledger.ForgiveRequest{Requests: map[string]string{}, Via: via, Reason: reason}
	for _, p := range w.Failed {
		which.Requests[p.Ref] = p.Request
	}
	if f.Request.Given {
		which.Refs = []string{w.Failed[0].Ref}
	}
	done, err := s.Books.Forgive(ctx, w.Account, which)
	if errors.Is(err, ledger.ErrNoLoss) || errors.Is(err, ledger.ErrUnknownKey) {
		if len(w.Failed) == 0 {
			return ForgiveResult{}, fault.New(fault.NotFound, "there is no loss of wallet "+w.Address, err)
		}
		return ForgiveResult{}, fault.New(fault.Conflict, "the payment of request "+w.Failed[0].Request+" failed, and its loss is not booked yet: a running gateway does that within seconds", err)
	}
	if err != nil {
		return ForgiveResult{}, faultOf(err)
	}
	return w.forgiven(&done, f.Payer.Given), nil
}

// forgiven describes the result by request ids. all is set if the whole wallet was selected.
func (w *Wallet) forgiven(done *ledger.ForgiveResult, all bool) ForgiveResult {
	requests := map[string]string{}
	for _, p := range w.Failed {
		requests[p.Ref] = p.Request
	}
	named := func(losses []ledger.Loss) (out []Loss) {
		for _, l := range losses {
			request, ok := requests[l.Ref]
			if !ok {
				request = l.Ref
			}
			out = append(out, Loss{request, l.Cost, l.Owed, l.Forgiveness})
			delete(requests, l.Ref)
		}
		return out
	}
	f := ForgiveResult{Payer: w.Address, Amount: done.Amount, Repeated: done.Again, Losses: named(done.Losses), Owed: done.Owed, Rest: named(done.StillOwed)}
	for _, p := range w.Failed {
		if _, left := requests[p.Ref]; left && all {
			f.Unbooked = append(f.Unbooked, p.Request)
		}
	}
	return f
}
