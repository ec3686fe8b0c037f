package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/credit"
)

// walletView is the output of `bardo wallet --json`.
type walletView struct {
	Check          *wallet.Check      `json:"check"` // null until the credit has been read
	State          string             `json:"state"` // the wallet's sustainability; "" without a wallet
	Ratio          float64            `json:"ratio"`
	BudgetPercent  int64              `json:"budget_percent"`
	BoughtToday    policy.Micro       `json:"bought_today_usd"`
	DailyPurchases policy.Micro       `json:"daily_purchases_usd"` // the maximum; 0 if nothing is bought
	Usage          *credit.Comparison `json:"usage"`               // null until it has been read
	DIEM           *diemView          `json:"diem"`                // null without staked credit
}

// diemView is the staked credit of a UTC day.
type diemView struct {
	Used  policy.Micro `json:"used_usd"`
	Daily policy.Micro `json:"daily_usd"` // 0: no limit
}

func walletCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "wallet", Short: "Show the credit at Bankr, what the wallet can afford, staked credit, and what differs from the ledger", Args: cli.NoArgs,
		Long: "Show the operator's account at Bankr as the gateway read it last: the credit, today's purchases, the wallet's sustainability and what it does to agents' budgets,\n" +
			"and Bankr's report of usage beside the ledger; and what staked credit (DIEM) at Venice has paid today. It asks nobody: providers.bankr.credit_interval\n" +
			"has the gateway read the account.",
	}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		h, err := home.Open()
		if err != nil {
			return err
		}
		cfg, _, err := settings.ForCommand(c, h)
		if err != nil {
			return err
		}
		v, err := viewWallet(c, h, cfg)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(c, v)
		}
		return v.print(c)
	}
	return c
}

func viewWallet(c *cobra.Command, h home.Dir, cfg *config.Config) (v walletView, err error) {
	s, err := wallet.Read(h)
	if err != nil {
		return v, err
	}
	purse := wallet.Of(wallet.With(cfg, s.Check))
	v = walletView{
		Check: s.Check, Usage: s.Usage, State: purse.Band().State, Ratio: purse.Ratio(), BudgetPercent: purse.Percent(), BoughtToday: s.Bought.On(time.Now()).Amount,
	}
	if b := cfg.Providers.Bankr; b.Buys() {
		v.DailyPurchases = b.TopupDaily
	}
	if p := cfg.Providers.Venice; p != nil && p.DIEMStaked {
		v.DIEM = &diemView{Daily: p.DIEMDaily}
		v.DIEM.Used, err = stakeUsed(c)
	}
	return v, err
}

// stakeUsed is what staked credit has paid for today.
func stakeUsed(c *cobra.Command) (used policy.Micro, err error) {
	err = withBooks(func(c *cobra.Command, api *http.Client, _ []string) error {
		s, err := adminapi.Call[admin.Staked](c.Context(), api, http.MethodGet, "/usage/staked", nil)
		used = s.Used
		return err
	})(c, nil)
	return used, err
}

func (v *walletView) print(c *cobra.Command) error {
	var b strings.Builder
	if v.Check == nil {
		b.WriteString("no credit at Bankr was read: it is, with providers.bankr and its credit_interval, while the gateway runs\n")
	} else {
		fmt.Fprintf(&b, "credit         %s, read %s: %s\n", cli.Dollars(v.Check.Credit), v.Check.At.Format(time.RFC3339), v.Check.Action)
	}
	if v.State != "" {
		fmt.Fprintf(&b, "wallet         %s: revenue over cost %s, budgets %d %%\n", v.State, strconv.FormatFloat(v.Ratio, 'f', 2, 64), v.BudgetPercent)
	}
	if v.DailyPurchases > 0 {
		fmt.Fprintf(&b, "bought today   %s of at most %s\n", cli.Dollars(v.BoughtToday), cli.Dollars(v.DailyPurchases))
	}
	if v.DIEM != nil {
		of := "without a limit"
		if v.DIEM.Daily > 0 {
			of = "of " + cli.Dollars(v.DIEM.Daily)
		}
		fmt.Fprintf(&b, "staked credit  %s used today, %s\n", cli.Dollars(v.DIEM.Used), of)
	}
	if _, err := fmt.Fprint(c.OutOrStdout(), b.String()); err != nil || v.Usage == nil {
		return err
	}
	return v.printUsage(c)
}

// printUsage prints Bankr's usage report beside the ledger's.
func (v *walletView) printUsage(c *cobra.Command) error {
	if _, err := fmt.Fprintf(c.OutOrStdout(), "\nusage from %s to %s\n", v.Usage.From.UTC().Format(time.DateTime), v.Usage.To.UTC().Format(time.DateTime)); err != nil {
		return err
	}
	rows := make([][]string, 0, len(v.Usage.Lines)+1)
	for _, l := range slices.Concat(v.Usage.Lines, []credit.Difference{{Model: "total", Cost: v.Usage.Cost, TheirCost: v.Usage.Their, Differs: v.Usage.Differs()}}) {
		verdict := ""
		if l.Differs {
			verdict = "differs"
		}
		rows = append(rows, []string{cli.Printable(l.Model), strconv.FormatInt(l.Requests, 10), l.Cost.String(), strconv.FormatInt(l.TheirRequests, 10), l.TheirCost.String(), verdict})
	}
	total := rows[len(rows)-1]
	total[1], total[3] = "", ""
	return cli.PrintTable(c.OutOrStdout(), []string{"MODEL", "REQUESTS", "LEDGER USD", "AT BANKR", "BANKR USD", ""}, rows)
}
