package payclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// view is a payment as listed.
type view struct {
	At          time.Time      `json:"at"`
	State       outgoing.State `json:"state"`
	Purpose     string         `json:"purpose"`
	Amount      policy.Micro   `json:"amount_usd"` // signed
	Spent       policy.Micro   `json:"spent_usd"`  // counted against limits
	PayTo       string         `json:"pay_to"`
	Payer       string         `json:"payer"`
	Network     string         `json:"network"`
	Asset       string         `json:"asset"`
	Nonce       string         `json:"nonce"`
	ValidUntil  time.Time      `json:"valid_until"`
	Transaction string         `json:"transaction,omitempty"`
	Reason      string         `json:"reason,omitempty"`
}

func viewOf(a *outgoing.Authorization) view {
	return view{
		At: a.At.UTC(), State: a.State, Purpose: a.Purpose, Amount: a.Value, Spent: a.Paid, PayTo: a.To.String(), Payer: a.From.String(), Network: a.Network, Asset: a.Asset.String(),
		Nonce: a.Nonce.String(), ValidUntil: time.Unix(int64(a.ValidBefore), 0).UTC(), Transaction: a.Tx, Reason: a.Reason, //nolint:gosec // a time
	}
}

func listCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List the payments that were signed, newest first", Args: cli.NoArgs,
		Long: "List the payments that were signed, newest first. State open: it is not known whether the payment was taken; answered: its request was served; used: the chain says\n" +
			"that it was taken; unused: the chain says that it was not, and never can be.",
	}
	c.Flags().IntVar(&limit, "limit", 20, "how many")
	asJSON := cli.JSONFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		book, err := openBook(c.Context())
		if err != nil {
			return err
		}
		all, err := book.Recent(c.Context(), limit)
		if err := errors.Join(err, book.Close()); err != nil {
			return err
		}
		return printAll(c, all, *asJSON)
	}
	return c
}

func printAll(c *cobra.Command, all []outgoing.Authorization, asJSON bool) error {
	views, rows := []view{}, [][]string{}
	for i := range all {
		v := viewOf(&all[i])
		views = append(views, v)
		rows = append(rows, []string{v.At.Format(time.RFC3339), string(v.State), cli.Dollars(v.Amount), v.PayTo, v.Network, v.Transaction, v.Reason})
	}
	if asJSON {
		return cli.PrintJSON(c, views)
	}
	return cli.PrintTable(c.OutOrStdout(), []string{"AT", "STATE", "AMOUNT", "PAID TO", "NETWORK", "TRANSACTION", "REASON"}, rows)
}

func reconcileCommand() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use: "reconcile", Short: "Ask the chain what became of payments without a known outcome", Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.reconcile(c) },
	}
	o.chainFlags(c)
	return c
}

func (o *options) reconcile(c *cobra.Command) error {
	if _, err := o.assets(); err != nil {
		return err
	}
	if o.rpc == "" {
		return errors.New("there is no node to ask: name one with --rpc, or set BARDO_PAY_RPC")
	}
	book, err := openBook(c.Context())
	if err != nil {
		return err
	}
	left, err := client.Reconcile(c.Context(), book, o.nodes())
	if err := errors.Join(err, book.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%d payments have no known outcome yet\n", left)
	return err
}
