package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// openLedger opens the ledger for a command, beside a gateway that may run on it.
func (h home) openLedger(ctx context.Context, cfg *config.Config) (*ledger.Ledger, error) {
	return openLedger(ctx, cfg.Store.LedgerFile(string(h)), ledger.Options{})
}

func openLedger(ctx context.Context, path string, o ledger.Options) (*ledger.Ledger, error) {
	books, err := ledger.Open(ctx, path, o)
	if err != nil {
		return nil, advised{err, ledgerAdvice(err)}
	}
	return books, nil
}

// ledgerAdvice says what to do about a ledger that does not open. Only a file that was read may be damaged or of another version.
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

// pepperOf is the pepper of a ledger. Where it is lost a new one is not made: keys that are in use would end without a word.
func pepperOf(ctx context.Context, h home, books *ledger.Ledger) (*auth.Pepper, error) {
	if !h.hasPepper(books.Path()) {
		lost, err := keysInUse(ctx, books)
		if err != nil {
			return nil, err
		}
		if lost > 0 && !h.hasPepper(books.Path()) { // another program may have made both meanwhile
			return nil, lostPepper(pepperPath(books.Path()), lost)
		}
	}
	return h.pepper(books.Path())
}

// tool is what a command on the ledger works with.
type tool struct {
	home  home
	books *ledger.Ledger
}

// withLedger runs a command on the configured ledger.
func withLedger(run func(c *cobra.Command, t tool, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) (err error) {
		h, err := openHome()
		if err != nil {
			return err
		}
		cfg, _, err := configured(c, h)
		if err != nil {
			return err
		}
		books, err := h.openLedger(c.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, books.Close()) }()
		err = run(c, tool{home: h, books: books}, args)
		if errors.Is(err, ledger.ErrUnknownKey) {
			return fmt.Errorf("%w; `bardo keys list` shows those that there are", err)
		}
		return err
	}
}

// keyStore shows the ledger's keys to the verifier.
type keyStore struct{ books *ledger.Ledger }

var _ auth.Store = keyStore{}

// Key reads a key's row.
func (s keyStore) Key(ctx context.Context, id string) (auth.Row, bool, error) {
	k, ok, err := s.books.Key(ctx, policy.Account(id))
	if err != nil || !ok {
		return auth.Row{}, false, err
	}
	return auth.Row{Principal: k.Principal(), Hash: k.Hash, Revoked: k.Revoked()}, true, nil
}

// Generation moves when any key changed.
func (s keyStore) Generation() uint64 { return s.books.Generation() }

// keysInUse counts the keys that are not revoked.
func keysInUse(ctx context.Context, books *ledger.Ledger) (n int, err error) {
	keys, err := books.Keys(ctx)
	for _, k := range keys {
		if !k.Revoked() {
			n++
		}
	}
	return n, err
}

func lostPepper(path string, keys int) error {
	return advised{
		fmt.Errorf("%s is missing, and the %d keys of the ledger were made with it", path, keys),
		"restore the file from a backup; without it, revoke these keys and make new ones",
	}
}

// keys is the verifier of the API keys in the ledger.
func (g *gateway) keys(ctx context.Context) (*auth.APIKeys, error) {
	pepper, err := pepperOf(ctx, g.home, g.books)
	if err != nil {
		return nil, err
	}
	return auth.NewAPIKeys(keyStore{g.books}, pepper, auth.Options{})
}

// pepperVersion names the pepper that key hashes are made with; there is one.
const pepperVersion = 1

// keySpec is a key that does not exist yet: its row, all but the id and the hash, and the balance that it starts with.
type keySpec struct {
	row     ledger.KeyRow
	opening policy.Micro
}

// createKey makes a key and stores it. The secret is the whole key; nothing keeps it.
func createKey(ctx context.Context, books *ledger.Ledger, pepper *auth.Pepper, spec keySpec) (id, secret string, err error) {
	row, secret, err := drawKey(pepper, spec.row)
	if err != nil {
		return "", "", err
	}
	if err := books.CreateKey(ctx, row, spec.opening); err != nil {
		return "", "", err
	}
	return string(row.ID), secret, nil
}

// drawKey makes a key, and completes its row.
func drawKey(pepper *auth.Pepper, row ledger.KeyRow) (complete ledger.KeyRow, secret string, err error) {
	key, err := auth.NewKey(rand.Reader)
	if err != nil {
		return row, "", err
	}
	row.ID, row.PepperVersion = policy.Account(key.ID()), pepperVersion
	row.Hash, err = pepper.Hash(key)
	return row, key.Reveal(), err
}

// firstKey makes a metered key where there is none at all, and returns its secret; "" where there are keys, or another gateway that
// starts on the same ledger was faster.
func (g *gateway) firstKey(ctx context.Context) (string, error) {
	keys, err := g.books.Keys(ctx)
	if err != nil || len(keys) > 0 {
		return "", err
	}
	pepper, err := g.home.pepper(g.books.Path())
	if err != nil {
		return "", err
	}
	row, secret, err := drawKey(pepper, ledger.KeyRow{Name: "default", Tier: defaultTier})
	if err != nil {
		return "", fmt.Errorf("make the first API key: %w", err)
	}
	created, err := g.books.CreateFirstKey(ctx, row)
	if err != nil || !created {
		return "", err
	}
	return secret, nil
}
