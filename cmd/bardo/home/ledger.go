package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/pay/book"
)

// OpenLedger opens the ledger for a command, possibly while a gateway runs on it.
func (h Dir) OpenLedger(ctx context.Context, cfg *config.Config) (*ledger.Ledger, error) {
	return h.OpenLedgerWith(ctx, cfg, ledger.Options{})
}

// Connect opens connections to PostgreSQL. Only the program bardo sets it: the data path in Envoy's process has no PostgreSQL client.
var Connect store.Connect

// OpenLedgerWith opens the ledger. Errors include advice.
func (h Dir) OpenLedgerWith(ctx context.Context, cfg *config.Config, o ledger.Options) (*ledger.Ledger, error) {
	o.Dir, o.Connect = string(h), Connect
	o.Sealer = func() (seal.Sealer, error) { return h.ContentKeys(cfg).Sealer("feedback") }
	books, err := ledger.Open(ctx, cfg.Store.LedgerName(string(h)), o)
	if err == nil {
		return books, nil
	}
	if cfg.Store.Ledger.Postgres() {
		return nil, cli.Advise(err, databaseAdvice(err))
	}
	return nil, cli.Advise(err, ledgerAdvice(err))
}

// Payments is the location of the store of wallets' payments that belongs to a ledger.
func (h Dir) Payments(cfg *config.Config) book.Place {
	return book.Beside(cfg.Store.LedgerName(string(h)), cfg.Store.LedgerFile(string(h)), Connect)
}

// databaseAdvice is the advice for a ledger in PostgreSQL that cannot be opened.
func databaseAdvice(err error) string {
	switch {
	case errors.Is(err, ledger.ErrNewerStore):
		return "use the version of bardo that wrote it, or a newer one"
	case errors.Is(err, store.ErrUnreachable):
		return "start the database, or correct store.ledger: its host, user, password and database"
	default:
		return "correct store.ledger; its user needs the right to create a schema in that database at the first start"
	}
}

// ledgerAdvice is the advice for a ledger file that cannot be opened. Only a file that was read may be damaged or of another version.
func ledgerAdvice(err error) string {
	switch {
	case notWritable(err):
		return "run bardo as the user whom the file and its directory belong to, or set BARDO_HOME or store.ledger to a place that this user may write to"
	case errors.Is(err, fs.ErrNotExist):
		return "make its directory, or correct store.ledger"
	default:
		return "restore the file from a backup, or use the version of bardo that wrote it"
	}
}

// PepperOf returns a ledger's pepper. If it is lost, no new one is created: keys in use would silently become invalid.
func PepperOf(ctx context.Context, h Dir, books *ledger.Ledger) (*auth.Pepper, error) {
	if !h.hasPepper(books.Path()) {
		lost, err := KeysInUse(ctx, books)
		if err != nil {
			return nil, err
		}
		if lost > 0 && !h.hasPepper(books.Path()) { // another program may have created both meanwhile
			return nil, LostPepper(PepperPath(books.Path()), lost)
		}
	}
	return h.Pepper(books.Path())
}

// KeysInUse counts the keys that are not revoked.
func KeysInUse(ctx context.Context, books *ledger.Ledger) (n int, err error) {
	keys, err := books.Keys(ctx)
	for _, k := range keys {
		if !k.Revoked() {
			n++
		}
	}
	return n, err
}

// LostPepper is the error of a ledger with keys whose pepper is missing.
func LostPepper(path string, keys int) error {
	return cli.Advise(
		fmt.Errorf("%s is missing, and the keys of the ledger (%d) were made with it", path, keys),
		"copy it from another gateway of this ledger, or restore it from a backup; without it, revoke these keys and make new ones",
	)
}
