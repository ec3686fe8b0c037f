package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/auditlog"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
)

func balanceCommand() *cobra.Command {
	c := &cobra.Command{Use: "balance ID", Short: "Show a key's balance, and what it has spent of its limits", Args: cli.OneArg("the key's id")}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		at, err := keyPath(args[0], "/balance")
		if err != nil {
			return err
		}
		b, err := adminapi.Call[admin.Balance](c.Context(), api, http.MethodGet, at, nil)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, b)
		}
		return printBalance(c, &b)
	})
	return c
}

func printBalance(c *cobra.Command, b *admin.Balance) error {
	text := fmt.Sprintf("key %s is metered: it has no balance\n", b.ID)
	if b.Balance != nil {
		text = fmt.Sprintf("balance    %s\nheld       %s\navailable  %s\n", cli.Dollars(*b.Balance), cli.Dollars(*b.Held), cli.Dollars(*b.Available))
	}
	text += fmt.Sprintf("today      %s\nmonth      %s\n", spentText(b.Day, b.SpendDay), spentText(b.Month, b.SpendMonth))
	if b.Project != "" {
		text += "project    " + cli.Printable(b.Project) + ", whose budgets count, too: `bardo projects list`\n"
	}
	switch {
	case b.Owed != nil && *b.Owed > 0:
		text += fmt.Sprintf("owed       %s\nblocked until that is paid, or forgiven (`bardo payments forgive`): a payment never arrived, and what comes in is taken first\n", cli.Dollars(*b.Owed))
	case b.Blocked:
		text += "blocked until a deposit: an answer cost more than there was, or a payment never arrived\n"
	}
	_, err := fmt.Fprint(c.OutOrStdout(), text)
	return err
}

// spentText formats what was spent of a limit; nil: no limit.
func spentText(spent policy.Micro, limit *policy.Micro) string {
	if limit == nil {
		return cli.Dollars(spent) + " spent"
	}
	return cli.Dollars(spent) + " spent of " + cli.Dollars(*limit)
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
	_ = errors.Join(c.MarkFlagRequired("usd"), c.MarkFlagRequired("ref")) // fails only for unknown flags
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		at, err := keyPath(args[0], "/deposits")
		if err != nil {
			return err
		}
		d := admin.Deposit{Ref: admin.Set(ref)}
		if err := dollarFlag(c, "usd", usd, &d.Amount); err != nil {
			return err
		}
		r, err := adminapi.Call[admin.Receipt](c.Context(), api, http.MethodPost, at, &d)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, r)
		}
		return printReceipt(c, &r)
	})
	return c
}

func printReceipt(c *cobra.Command, r *admin.Receipt) error {
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
	c.AddCommand(auditlog.Command())
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		r, err := adminapi.Call[ledger.Report](c.Context(), api, http.MethodGet, "/audit", nil)
		if err != nil {
			return err
		}
		h, err := home.Open()
		if err != nil {
			return err
		}
		s := control.ReadLedger(c.Context(), h)
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
	if r.Again != nil {
		fmt.Fprintln(&b, r.Again)
		for _, what := range r.Again.For {
			fmt.Fprintf(&b, "        %s\n", cli.Printable(what))
		}
	}
	if r.Forgiven.Losses > 0 {
		fmt.Fprintf(&b, "%d losses forgiven, of which %s was owed\n", r.Forgiven.Losses, cli.Dollars(r.Forgiven.Amount))
	}
	fmt.Fprintf(&b, "%d accounts, %d journals, %d requests\n", r.Accounts, r.Journals, r.Requests)
	_, err := fmt.Fprint(c.OutOrStdout(), b.String())
	return err
}
