package adminapi

import (
	"context"
	"encoding/json"
	"errors"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay/book"
	"bardo.money/gateway/policy/pay/reconcile"
)

// BooksOf returns the admin service of a ledger.
func BooksOf(h home.Dir, books *ledger.Ledger) *admin.Service {
	return &admin.Service{Books: books, Pepper: func(ctx context.Context) (*auth.Pepper, error) { return home.PepperOf(ctx, h, books) }}
}

// KeyMaker returns a function that creates a key from a row without id and hash.
func KeyMaker(h home.Dir, books *ledger.Ledger) func(context.Context, ledger.KeyRow, policy.Micro) (id, secret string, err error) {
	return func(ctx context.Context, row ledger.KeyRow, opening policy.Micro) (id, secret string, err error) {
		pepper, err := home.PepperOf(ctx, h, books)
		if err != nil {
			return "", "", err
		}
		if row, secret, err = admin.DrawKey(pepper, row); err != nil {
			return "", "", err
		}
		if err := books.CreateKey(ctx, row, opening); err != nil {
			return "", "", err
		}
		return string(row.ID), secret, nil
	}
}

// PaymentsOf returns a lookup of the payment for a request.
func PaymentsOf(b *book.Book) func(context.Context, string) (json.RawMessage, bool, error) {
	return func(ctx context.Context, request string) (json.RawMessage, bool, error) {
		p, ok, err := b.ByRequest(ctx, request)
		return viewOf(&p, ok, err)
	}
}

// PaymentsIn is PaymentsOf for a store that running gateways may have open.
func PaymentsIn(at book.Place) func(context.Context, string) (json.RawMessage, bool, error) {
	return func(ctx context.Context, request string) (json.RawMessage, bool, error) {
		p, ok, err := book.Look(ctx, at, request)
		return viewOf(&p, ok, err)
	}
}

// PaymentsListed returns a function that lists the payments of a store, which running gateways may have open.
func PaymentsListed(at book.Place) func(context.Context, book.Filter) ([]book.Listed, error) {
	return func(ctx context.Context, f book.Filter) (list []book.Listed, err error) {
		b, ok, err := book.Inspect(ctx, at)
		if err != nil || !ok {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		return b.List(ctx, f)
	}
}

// AuditOf returns a function that checks a ledger, and the payments of a store against it.
func AuditOf(books *ledger.Ledger, at book.Place) func(context.Context) (ledger.Report, error) {
	return func(ctx context.Context) (r ledger.Report, err error) {
		if r, err = books.Audit(ctx); err != nil {
			return r, err
		}
		b, ok, err := book.Inspect(ctx, at)
		if err != nil || !ok {
			return r, err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		return r, reconcile.Run(ctx, b, books, &r)
	}
}

func viewOf(p *book.Payment, ok bool, err error) (json.RawMessage, bool, error) {
	if err != nil || !ok {
		return nil, false, err
	}
	b, err := json.Marshal(p.View())
	return b, true, err
}

// CacheOf returns the cache of a gateway on a ledger.
func CacheOf(answers *cache.Store, books *ledger.Ledger) *Cache {
	return &Cache{Answers: answers, Keys: func(ctx context.Context) ([]policy.Account, error) {
		rows, err := books.Keys(ctx)
		ids := make([]policy.Account, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		return ids, err
	}}
}
