package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay/book"
	"bardo.money/gateway/policy/pay/reconcile"
)

func balanceCommand() *cobra.Command {
	c := &cobra.Command{Use: "balance ID", Short: "Show a key's balance", Args: cli.OneArg("the key's id")}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, args []string) error {
		id, err := keyID(args[0])
		if err != nil {
			return err
		}
		b, err := t.books.Balance(c.Context(), id)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, balanceOf(id, b))
		}
		return printBalance(c, id, b)
	})
	return c
}

// keyBalance is what `balance --json` prints. The amounts of a metered key are null.
type keyBalance struct {
	ID        policy.Account `json:"id"`
	Balance   *policy.Micro  `json:"balance_usd"`
	Held      *policy.Micro  `json:"held_usd"`
	Available *policy.Micro  `json:"available_usd"`
	Blocked   bool           `json:"blocked"`
}

func balanceOf(id policy.Account, b ledger.Balance) keyBalance {
	if !b.Prepaid {
		return keyBalance{ID: id}
	}
	return keyBalance{ID: id, Balance: &b.Amount, Held: &b.Held, Available: &b.Available, Blocked: b.Blocked}
}

func printBalance(c *cobra.Command, id policy.Account, b ledger.Balance) error {
	if !b.Prepaid {
		_, err := fmt.Fprintf(c.OutOrStdout(), "key %s is metered: it has no balance\n", id)
		return err
	}
	text := fmt.Sprintf("balance    %s\nheld       %s\navailable  %s\n", cli.Dollars(b.Amount), cli.Dollars(b.Held), cli.Dollars(b.Available))
	if b.Blocked {
		text += "blocked until a deposit: an answer cost more than there was\n"
	}
	_, err := fmt.Fprint(c.OutOrStdout(), text)
	return err
}

// receipt is what `deposit --json` prints.
type receipt struct {
	ID       policy.Account `json:"id"`
	Ref      string         `json:"ref"`
	Amount   policy.Micro   `json:"amount_usd"`
	Repeated bool           `json:"repeated"` // the reference was used before, and nothing changed
	Balance  policy.Micro   `json:"balance_usd"`
}

func depositCommand() *cobra.Command {
	var usd, ref string
	c := &cobra.Command{
		Use: "deposit ID --usd AMOUNT --ref REFERENCE", Short: "Add to a prepaid key's balance", Args: cli.OneArg("the key's id"),
		Long: "Add to a prepaid key's balance. A reference counts once per key, so that a deposit may safely be repeated.",
	}
	c.Flags().StringVar(&usd, "usd", "", "amount in dollars")
	c.Flags().StringVar(&ref, "ref", "", "a reference of the payment: an invoice, a transaction")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	_ = errors.Join(c.MarkFlagRequired("usd"), c.MarkFlagRequired("ref")) // fails only for flags that are not there
	c.RunE = withLedger(func(c *cobra.Command, t tool, args []string) error {
		id, err := keyID(args[0])
		if err != nil {
			return err
		}
		amount, err := parseAmount("--usd", usd)
		if err != nil {
			return err
		}
		if amount == 0 {
			return errors.New("--usd: a deposit of nothing")
		}
		if strings.TrimSpace(ref) == "" {
			return errors.New("--ref is empty: it makes a repeated deposit count once")
		}
		r, err := t.deposit(c.Context(), id, amount, ref)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, r)
		}
		return r.print(c)
	})
	return c
}

func (t tool) deposit(ctx context.Context, id policy.Account, amount policy.Micro, ref string) (receipt, error) {
	before, err := t.books.Deposited(ctx, id, ref)
	if err != nil {
		return receipt{}, err
	}
	balance, err := t.books.Deposit(ctx, id, amount, ref)
	return receipt{ID: id, Ref: ref, Amount: amount, Repeated: before != 0, Balance: balance}, err
}

func (r receipt) print(c *cobra.Command) error {
	what := "deposited " + cli.Dollars(r.Amount)
	if r.Repeated {
		what = fmt.Sprintf("nothing changed: reference %s brought %s before", cli.Printable(r.Ref), cli.Dollars(r.Amount))
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s\nbalance   %s\n", what, cli.Dollars(r.Balance))
	return err
}

func auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "Check the invariants of the ledger; exit status 1, with the offending rows, if one is violated", Args: cli.NoArgs,
	}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error {
		r, err := t.books.Audit(c.Context())
		if err != nil {
			return err
		}
		if err := t.reconcile(c.Context(), &r); err != nil {
			return err
		}
		s := control.AskLedger(c.Context(), t.home)
		r.AddInMemory(s.Waiting(), s.Unready)
		show := printAudit
		if *asJSON {
			show = func(c *cobra.Command, r ledger.Report) error { return cli.PrintJSON(c, r) }
		}
		if err := show(c, r); err != nil {
			return err
		}
		if !r.OK {
			return cli.Exit(1)
		}
		return nil
	})
	return c
}

// reconcile checks the payments of this machine, if there are any.
func (t tool) reconcile(ctx context.Context, r *ledger.Report) (err error) {
	b, ok, err := book.Inspect(book.File(t.file))
	if err != nil || !ok {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return reconcile.Run(ctx, b, t.books, r)
}

func printAudit(c *cobra.Command, r ledger.Report) error {
	var b strings.Builder
	for _, check := range r.Checks {
		verdict := "ok  "
		if !check.OK {
			verdict = "FAIL"
		}
		fmt.Fprintf(&b, "%s  %s\n", verdict, check.Name)
		for _, row := range check.Offending {
			fmt.Fprintf(&b, "        %s\n", cli.Printable(row))
		}
	}
	fmt.Fprintf(&b, "%d accounts, %d journals, %d requests\n", r.Accounts, r.Journals, r.Requests)
	_, err := fmt.Fprint(c.OutOrStdout(), b.String())
	return err
}
