package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres"
)

func init() { home.Connect = postgres.Connect }

// tool is what a command on the ledger works with.
type tool struct {
	home  home.Dir
	books *ledger.Ledger
	file  string // of the ledger, or in whose folder the others are
}

// withLedger runs a command on the configured ledger.
func withLedger(run func(c *cobra.Command, t tool, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) (err error) {
		h, err := home.Open()
		if err != nil {
			return err
		}
		cfg, _, err := settings.ForCommand(c, h)
		if err != nil {
			return err
		}
		books, err := h.OpenLedger(c.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, books.Close()) }()
		err = run(c, tool{home: h, books: books, file: cfg.Store.LedgerFile(string(h))}, args)
		if errors.Is(err, ledger.ErrUnknownKey) {
			return fmt.Errorf("%w; `bardo keys list` shows those that there are", err)
		}
		return err
	}
}
