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
	"bardo.money/gateway/policy/pay/book"
)

// mostListed is how many payments the admin API lists at once.
const mostListed = 1000

func paymentsCommand() *cobra.Command {
	var payer, state string
	var limit int
	c := &cobra.Command{
		Use: "payments", Short: "List what wallets paid for single requests (x402)", Args: cli.NoArgs,
		Long: "List what wallets paid for single requests (x402), the latest first: the request, the wallet, how far the payment is, what was signed and what is moved.\n" +
			"`bardo pay list` lists what this machine's wallet paid to others.",
	}
	c.Flags().StringVar(&payer, "payer", "", "only payments of this wallet, by its address")
	c.Flags().StringVar(&state, "state", "", "only payments that are so far: "+strings.Join(book.States, ", "))
	cli.Completes(c, "state", book.States...)
	c.Flags().IntVar(&limit, "limit", 50, "list at most so many")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		if limit < 1 || limit > mostListed {
			return fmt.Errorf("--limit %d, expected 1 to %d", limit, mostListed)
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
	Data []book.Listed `json:"data"`
}

func printPayments(c *cobra.Command, list []book.Listed) error {
	rows := make([][]string, len(list))
	for i := range list {
		p := &list[i]
		rows[i] = []string{
			p.At.UTC().Format(time.RFC3339), p.Request, p.Payer, p.State, string(p.Scheme), cli.Dollars(p.Authorized), cli.Dollars(p.Amount), cli.Dollars(p.Fee), p.Transaction, p.Reason,
		}
	}
	return cli.PrintTable(c.OutOrStdout(), []string{"TIME", "REQUEST", "PAYER", "STATE", "SCHEME", "SIGNED", "MOVED", "FEE", "TRANSACTION", "REASON"}, rows)
}
