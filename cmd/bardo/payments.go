package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/pay/book"
)

// maxListed is how many payments the admin API lists per page.
const maxListed = 1000

func paymentsCommand() *cobra.Command {
	var payer, state string
	var limit int
	c := &cobra.Command{
		Use: "payments", Short: "List what wallets paid for single requests (x402)", Args: cli.NoArgs,
		Long: "List what wallets paid for single requests (x402), the latest first: the request, the wallet, how far the payment is, what was signed and what is moved.\n" +
			"`bardo pay list` lists what this machine's wallet paid to others.",
	}
	c.Flags().StringVar(&payer, "payer", "", "only payments of this wallet, by its address")
	c.Flags().StringVar(&state, "state", "", "only payments in this state: "+strings.Join(book.States, ", "))
	cli.Completes(c, "state", book.States...)
	c.Flags().IntVar(&limit, "limit", 50, "list at most so many")
	c.AddCommand(forgiveCommand())
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		if limit < 1 || limit > maxListed {
			return fmt.Errorf("--limit %d, expected 1 to %d", limit, maxListed)
		}
		q := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, value := range map[string]string{"payer": payer, "state": state} {
			if value != "" {
				q.Set(name, value)
			}
		}
		page, err := adminapi.Call[paymentPage](c.Context(), api, http.MethodGet, "/payments?"+q.Encode(), nil)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, page.Data)
		}
		return printPayments(c, page.Data)
	})
	return c
}

// paymentPage is a page of the admin API's list of payments.
type paymentPage struct {
	Data []adminapi.Payment `json:"data"`
}

func printPayments(c *cobra.Command, list []adminapi.Payment) error {
	rows := make([][]string, len(list))
	for i := range list {
		p := &list[i]
		state := p.State
		if p.Forgiven != nil {
			state += ", forgiven"
		}
		rows[i] = []string{
			p.At.UTC().Format(time.RFC3339), p.Request, p.Payer, state, string(p.Scheme), cli.Dollars(p.Authorized), cli.Dollars(p.Amount), cli.Dollars(p.Fee), p.Transaction, p.Reason,
		}
	}
	return cli.PrintTable(c.OutOrStdout(), []string{"TIME", "REQUEST", "PAYER", "STATE", "SCHEME", "SIGNED", "MOVED", "FEE", "TRANSACTION", "REASON"}, rows)
}

func forgiveCommand() *cobra.Command {
	var payer, reason string
	c := &cobra.Command{
		Use: "forgive [REQUEST] --reason TEXT", Short: "Forgive what a wallet owes for payments that never arrived", Args: cli.AtMostOneArg("the id of a request"),
		Long: "Forgive what a wallet owes for payments that never arrived: for one, by the id of its request, or with --payer for all so far. The wallet's next request is served\n" +
			"as that of another, if it owes nothing else. What was recovered stays so. Repeating it changes nothing. `bardo payments --state failed` lists losses.",
	}
	c.Flags().StringVar(&payer, "payer", "", "all losses of this wallet, by its address")
	c.Flags().StringVar(&reason, "reason", "", "why, for the books and the audit log")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	_ = c.MarkFlagRequired("reason") // fails only for an unknown flag
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, args []string) error {
		f := admin.ForgiveRequest{Reason: admin.Set(reason)}
		if (len(args) == 1) == c.Flags().Changed("payer") {
			return fmt.Errorf("%s takes the id of a request, or --payer, and not both; `bardo payments --state failed` lists losses", c.CommandPath())
		}
		if len(args) == 1 {
			f.Request = admin.Set(args[0])
		} else {
			f.Payer = admin.Set(payer)
		}
		done, err := adminapi.Call[admin.ForgiveResult](c.Context(), api, http.MethodPost, "/payments/forgive", &f)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, done)
		}
		return printForgiven(c, &done)
	})
	return c
}

func printForgiven(c *cobra.Command, f *admin.ForgiveResult) error {
	var b strings.Builder
	for i := range f.Losses {
		l := &f.Losses[i]
		fmt.Fprintf(&b, "request %s  cost %s, forgiven %s (%s: %s)\n", cli.Printable(l.Request), cli.Dollars(l.Cost), cli.Dollars(l.Forgiveness.Amount), l.Forgiveness.At.UTC().Format(time.RFC3339), cli.Printable(l.Forgiveness.Reason))
	}
	if f.Repeated {
		fmt.Fprintln(&b, "nothing changed: all of that was forgiven before")
	} else {
		fmt.Fprintf(&b, "forgiven  %s of wallet %s\n", cli.Dollars(f.Amount), f.Payer)
	}
	fmt.Fprintf(&b, "owed      %s\n", cli.Dollars(f.Owed))
	for i := range f.Rest {
		fmt.Fprintf(&b, "          %s of it for request %s\n", cli.Dollars(f.Rest[i].Owed), cli.Printable(f.Rest[i].Request))
	}
	for _, request := range f.Unbooked {
		fmt.Fprintf(&b, "not forgiven: request %s, whose loss is not booked yet; a running gateway does that within seconds\n", cli.Printable(request))
	}
	_, err := fmt.Fprint(c.OutOrStdout(), b.String())
	return err
}
