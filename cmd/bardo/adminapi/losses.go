package adminapi

import (
	"context"
	"errors"
	"net/http"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// Payment is an item of the list of payments.
type Payment struct {
	book.Listed

	Forgiven *ledger.Forgiveness `json:"forgiven,omitempty"` // only of a failed payment
}

// forgive forgives the losses of a wallet's failed payments.
func (a *api) forgive(r *http.Request) (reply, error) {
	var f admin.ForgiveRequest
	if err := readBody(r, &f); err != nil {
		return reply{}, err
	}
	done, err := a.Books.Forgive(r.Context(), &f, viaOf(r))
	target := done.Payer
	if f.Request.Given {
		target = f.Request.Value
	}
	return reply{body: done, target: target, amount: done.Amount.String(), reason: f.Reason.Value}, err
}

// withForgiveness adds which losses were forgiven.
func (a *api) withForgiveness(ctx context.Context, list []book.Listed) ([]Payment, error) {
	out := make([]Payment, len(list))
	var keys []string
	for i := range list {
		if out[i].Listed = list[i]; list[i].State == string(book.Failed) {
			keys = append(keys, ledger.LossKey(list[i].Account, list[i].Reference))
		}
	}
	if len(keys) == 0 {
		return out, nil
	}
	forgiven, err := a.Books.Books.ForgivenLosses(ctx, keys)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the books cannot be read at the moment", err)
	}
	for i := range out {
		if p, ok := forgiven[ledger.LossKey(list[i].Account, list[i].Reference)]; ok {
			out[i].Forgiven = &p
		}
	}
	return out, nil
}

// WalletIn returns a lookup of failed payments in a store, which running gateways may have open.
func WalletIn(at book.Place) func(ctx context.Context, request, payer string) (admin.Wallet, error) {
	return func(ctx context.Context, request, payer string) (w admin.Wallet, err error) {
		b, ok, err := book.Inspect(ctx, at)
		if err != nil {
			return w, unreadable(err)
		}
		if !ok {
			return w, fault.New(fault.NotFound, "no wallet has paid here", nil)
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		if request == "" {
			return walletOf(ctx, b, payer)
		}
		return failedOf(ctx, b, request)
	}
}

func unreadable(err error) error {
	return fault.New(fault.Unavailable, "payments cannot be read at the moment", err)
}

// walletOf returns a wallet and its failed payments.
func walletOf(ctx context.Context, b *book.Book, payer string) (admin.Wallet, error) {
	at, err := pay.ParseAddress(payer)
	if err != nil {
		return admin.Wallet{}, invalidParam("payer", ": expected 0x and 40 hexadecimal digits")
	}
	failed, err := b.Failed(ctx, at)
	if err != nil {
		return admin.Wallet{}, unreadable(err)
	}
	return wallet(at, failed...), nil
}

// failedOf returns the wallet that paid for a request, with that failed payment first.
func failedOf(ctx context.Context, b *book.Book, request string) (admin.Wallet, error) {
	p, ok, err := b.ByRequest(ctx, request)
	switch {
	case err != nil:
		return admin.Wallet{}, unreadable(err)
	case !ok:
		return admin.Wallet{}, fault.New(fault.NotFound, "no wallet has paid for a request "+fault.Clip(request), nil)
	case p.Settlement != book.Failed:
		return admin.Wallet{}, fault.New(fault.Conflict, "the payment of request "+request+" is no loss: its state is "+p.State(), nil)
	}
	failed, err := b.Failed(ctx, p.From)
	if err != nil {
		return admin.Wallet{}, unreadable(err)
	}
	return wallet(p.From, append([]book.Payment{p}, failed...)...), nil
}

func wallet(at pay.Address, failed ...book.Payment) admin.Wallet {
	w := admin.Wallet{Address: at.String(), Account: pay.Account(at)}
	for i := range failed {
		w.Failed = append(w.Failed, admin.Failed{Request: failed[i].Request, Ref: failed[i].Reference()})
	}
	return w
}
