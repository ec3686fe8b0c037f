package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/pay/book"
)

func init() { home.Connect = postgres.Connect }

// tool is what a command on the ledger uses.
type tool struct {
	home     home.Dir
	books    *ledger.Ledger
	payments book.Place
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
		err = run(c, tool{home: h, books: books, payments: h.Payments(cfg)}, args)
		if errors.Is(err, ledger.ErrUnknownKey) {
			return fmt.Errorf("%w; `bardo keys list` shows those that there are", err)
		}
		return err
	}
}

// withBooks runs a command on the configured ledger through the admin API: that of the running gateway, which knows its unwritten state, or else one in this
// process. If the gateway exits meanwhile, the command is run again, provided that all its requests can be repeated; a command prints nothing before its last
// answer.
func withBooks(run func(c *cobra.Command, api *http.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		h, err := home.Open()
		if err != nil {
			return err
		}
		cfg, _, err := settings.ForCommand(c, h)
		if err != nil {
			return err
		}
		if err := hasLedger(c.Context(), h, cfg); err != nil {
			return err
		}
		if api := gatewayOn(c.Context(), h, cfg.Store.LedgerName(string(h))); api != nil {
			answers := &answerRecorder{next: api.Transport}
			api.Transport = answers
			if err := run(c, api, args); !answers.lost || c.Context().Err() != nil {
				return inFlags(err)
			}
			if !answers.repeatable {
				return errors.New("the gateway ended before it answered, and may have done what was asked: look before you repeat it (`bardo keys list`)")
			}
		}
		return withLedger(func(c *cobra.Command, t tool, args []string) error {
			books := adminapi.BooksOf(t.home, t.books)
			books.Payment, books.Wallet = adminapi.PaymentsIn(t.payments), adminapi.WalletIn(t.payments)
			local := adminapi.Options{Books: books, Payments: adminapi.PaymentsListed(t.payments), Audit: adminapi.AuditOf(t.books, t.payments)}
			return inFlags(run(c, adminapi.Local(adminapi.Handler(local)), args))
		})(c, args)
	}
}

// hasLedger returns an error beside a control plane that runs alone: it has no ledger, and a new one would not be used by any gateway.
func hasLedger(ctx context.Context, h home.Dir, cfg *config.Config) error {
	if cfg.Store.Ledger.Postgres() {
		return nil
	}
	if _, err := os.Stat(cfg.Store.LedgerName(string(h))); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, gateway := h.Answering(ctx); gateway {
		return nil
	}
	if _, plane := h.AnsweringAs(ctx, home.PlaneFile); plane {
		return fmt.Errorf("there is no ledger on %s, only a control plane: ask beside a sidecar", h)
	}
	return nil
}

// answerRecorder records whether a request got no complete answer. It is used by one command, which sends one request at a time.
type answerRecorder struct {
	next             http.RoundTripper
	lost, repeatable bool
}

// RoundTrip implements http.RoundTripper. It reads the whole answer, unless it is a stream of lines.
func (h *answerRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(r)
	if err == nil && resp.Header.Get("Content-Type") == adminapi.Lines { // printed as it arrives
		return resp, nil
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if err != nil {
		h.lost, h.repeatable = true, r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/deposits") || strings.HasSuffix(r.URL.Path, "/forgive") // these are idempotent
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// answerTimeout bounds how long a gateway may take to identify its ledger.
const answerTimeout = time.Second

// gatewayOn returns a client of the gateway that runs on a ledger; nil if none does, or it does not answer.
func gatewayOn(ctx context.Context, h home.Dir, name string) *http.Client {
	r, ok := h.Answering(ctx)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if control.ReadLedger(ctx, h).Store != control.StoreID(name) {
		return nil
	}
	return control.Client(r.Control)
}

// flags are the flags of members whose name differs.
var flags = map[string]string{
	"policies.injection": "--injection", "policies.pii": "--pii", "models": "--model", "subsystems": "--subsystem", "origins": "--origin", "expires_at": "--expires",
	"amount_usd": "--usd", "overlap_seconds": "--overlap", "id": "ID", "request_id": "REQUEST",
}

// inFlags replaces the member's name in an error of the admin API by the flag's.
func inFlags(err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok {
		return err
	}
	text := f.Public
	if f.Param != "" {
		flag, ok := flags[f.Param]
		if !ok {
			flag = "--" + strings.ReplaceAll(f.Param, "_", "-")
		}
		text = flag + strings.TrimPrefix(text, f.Param)
	}
	if strings.Contains(text, ledger.ErrUnknownKey.Error()) {
		text += "; `bardo keys list` shows those that there are"
	}
	return errors.New(text)
}
