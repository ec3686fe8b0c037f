package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

func keysCommand() *cobra.Command {
	c := cli.Group("keys", "Create, list, update, rotate and revoke API keys")
	c.AddCommand(keysCreateCommand(), keysListCommand(), keysUpdateCommand(), keysRotateCommand(), keysRevokeCommand())
	return c
}

// newKey is what `keys create --json` prints.
type newKey struct {
	ID      string        `json:"id"`
	Key     string        `json:"key"`
	Name    string        `json:"name"`
	Tier    policy.Tier   `json:"tier"`
	Balance *policy.Micro `json:"balance_usd"` // null: the key is metered
}

func keysCreateCommand() *cobra.Command {
	var f keyFlags
	var balance string
	var publishable bool
	c := &cobra.Command{
		Use: "create --name NAME", Short: "Create an API key; its secret is shown once", Args: cli.NoArgs,
		Long: "Create an API key. With --balance-usd it is prepaid: requests are paid from its balance and refused without one.\n" +
			"Otherwise it is metered: what it uses is counted, and no balance limits it.",
	}
	f.add(c)
	c.Flags().StringVar(&balance, "balance-usd", "", "make the key prepaid, with this opening balance")
	c.Flags().BoolVar(&publishable, "publishable", false, "make a key for clients that cannot keep it secret, such as web pages: bardo_pk_…")
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	_ = c.MarkFlagRequired("name") // fails only for a flag that is not there
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error {
		spec := home.KeySpec{Row: ledger.KeyRow{Tier: home.DefaultTier}}
		if err := f.apply(c, &spec.Row); err != nil {
			return err
		}
		if c.Flags().Changed("balance-usd") {
			amount, err := parseAmount("--balance-usd", balance)
			if err != nil {
				return err
			}
			spec.Row.Prepaid, spec.Opening = true, amount
		}
		spec.Row.Publishable = publishable
		if err := checkPublishable(&spec.Row); err != nil {
			return err
		}
		pepper, err := home.PepperOf(c.Context(), t.home, t.books)
		if err != nil {
			return err
		}
		id, secret, err := home.CreateKey(c.Context(), t.books, pepper, spec)
		if err != nil {
			return err
		}
		k := newKey{ID: id, Key: secret, Name: spec.Row.Name, Tier: spec.Row.Tier}
		if spec.Row.Prepaid {
			k.Balance = &spec.Opening
		}
		if *asJSON {
			return cli.PrintJSON(c, k)
		}
		return k.print(c)
	})
	return c
}

func (k newKey) print(c *cobra.Command) error {
	balance := "metered"
	if k.Balance != nil {
		balance = cli.Dollars(*k.Balance)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "id       %s\nname     %s\ntier     %s\nbalance  %s\nkey      %s\n\nThe key is shown this once: keep it now.\n",
		k.ID, k.Name, k.Tier, balance, k.Key)
	return err
}

func keysUpdateCommand() *cobra.Command {
	var f keyFlags
	c := &cobra.Command{
		Use: "update ID", Short: "Update an API key; fields without a flag keep their values", Args: cli.OneArg("the key's id"),
		Long: "Update an API key, while the gateway runs or not. Fields without a flag keep their values.\n" +
			"A key stays prepaid or metered; `bardo deposit` adds to a balance.",
	}
	f.add(c)
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, args []string) error {
		id, err := keyID(args[0])
		if err != nil {
			return err
		}
		if !f.any(c) {
			return errors.New("nothing to change: give at least one of --name, --tier, --limit-usd-day, --rpm, --ip, --read-only, --injection, --pii, --" + strings.Join(scopeNames, ", --"))
		}
		err = t.books.UpdateKey(c.Context(), id, func(k *ledger.KeyRow) error {
			if k.Revoked() {
				return errors.New("the key was revoked, which is for good")
			}
			return f.apply(c, k)
		})
		if err != nil {
			return err
		}
		return t.printKey(c, id, *asJSON)
	})
	return c
}

func keysRevokeCommand() *cobra.Command {
	c := &cobra.Command{Use: "revoke ID", Short: "Revoke an API key permanently; its balance stays in the ledger", Args: cli.OneArg("the key's id")}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, args []string) error {
		id, err := keyID(args[0])
		if err != nil {
			return err
		}
		if err := t.books.RevokeKey(c.Context(), id); err != nil {
			return err
		}
		return t.printKey(c, id, *asJSON)
	})
	return c
}

func keysListCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the API keys, without their secrets", Args: cli.NoArgs}
	asJSON := cli.JSONFlag(c)
	settings.Flag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error {
		rows, err := t.books.Keys(c.Context())
		if err != nil {
			return err
		}
		keys := make([]keyInfo, len(rows))
		for i, row := range rows {
			if keys[i], err = t.keyInfo(c, row); err != nil {
				return err
			}
		}
		if *asJSON {
			return cli.PrintJSON(c, keys)
		}
		return printKeys(c, keys)
	})
	return c
}

// keyInfo is a key as `keys list --json` prints it.
type keyInfo struct {
	ID       policy.Account `json:"id"`
	Name     string         `json:"name"`
	Tier     policy.Tier    `json:"tier"`
	Balance  *policy.Micro  `json:"balance_usd"`   // null: the key is metered
	SpendDay *policy.Micro  `json:"limit_usd_day"` // null: no limit
	RPM      *int           `json:"rpm"`           // null: the configured limit; 0: no limit
	Networks []netip.Prefix `json:"ip"`
	ReadOnly bool           `json:"read_only"`
	Guards   policy.Guards  `json:"policies"` // a member that it lacks: the configured policy
	Created  time.Time      `json:"created_at"`
	Revoked  *time.Time     `json:"revoked_at"`
	scopeInfo
}

func (t tool) keyInfo(c *cobra.Command, k ledger.KeyRow) (keyInfo, error) {
	info := keyInfo{
		ID: k.ID, Name: k.Name, Tier: k.Tier, Networks: append([]netip.Prefix{}, k.Networks...), ReadOnly: k.ReadOnly,
		Guards: k.Guards, Created: k.CreatedAt.UTC(), scopeInfo: scopeOf(&k),
	}
	if k.Prepaid {
		b, err := t.books.Balance(c.Context(), k.ID)
		if err != nil {
			return info, err
		}
		info.Balance = &b.Amount
	}
	if k.SpendDay > 0 {
		info.SpendDay = &k.SpendDay
	}
	if k.RPM != 0 {
		info.RPM = new(max(k.RPM, 0))
	}
	if k.Revoked() {
		info.Revoked = new(k.RevokedAt.UTC())
	}
	return info, nil
}

func (t tool) printKey(c *cobra.Command, id policy.Account, asJSON bool) error {
	row, ok, err := t.books.Key(c.Context(), id)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("key %s: %w", id, ledger.ErrUnknownKey)
	}
	info, err := t.keyInfo(c, row)
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(c, info)
	}
	return printKeys(c, []keyInfo{info})
}

func printKeys(c *cobra.Command, keys []keyInfo) error {
	rows := make([][]string, len(keys))
	for i, k := range keys {
		rows[i] = k.cells()
	}
	return cli.PrintTable(c.OutOrStdout(), []string{"ID", "NAME", "TIER", "BALANCE", "LIMIT/DAY", "RPM", "FROM", "POLICIES", "STATE", "CREATED", "FOR"}, rows)
}

func (k keyInfo) cells() []string {
	balance, limit, rpm, from, state := "metered", "none", "default", "anywhere", "active"
	if k.Balance != nil {
		balance = cli.Dollars(*k.Balance)
	}
	if k.SpendDay != nil {
		limit = cli.Dollars(*k.SpendDay)
	}
	if k.RPM != nil {
		rpm = strconv.Itoa(*k.RPM)
		if *k.RPM == 0 {
			rpm = "none"
		}
	}
	if len(k.Networks) > 0 {
		from = joinNetworks(k.Networks)
	}
	if k.ReadOnly {
		state = "read only"
	}
	if k.Publishable {
		state = "publishable"
	}
	if k.Expires != nil && !time.Now().Before(*k.Expires) {
		state = "expired"
	}
	if k.Revoked != nil {
		state = "revoked"
	}
	return []string{string(k.ID), k.Name, string(k.Tier), balance, limit, rpm, from, guardsText(k.Guards), state, k.Created.Format(time.DateOnly), k.text()}
}

// guardsText is a key's own policies in a table: injection=block,pii=mask.
func guardsText(g policy.Guards) string {
	var own []string
	if g.Injection != "" {
		own = append(own, "injection="+g.Injection)
	}
	if g.PII != "" {
		own = append(own, "pii="+g.PII)
	}
	if own == nil {
		return defaultPolicy
	}
	return strings.Join(own, ",")
}

func joinNetworks(networks []netip.Prefix) string {
	text := make([]string, len(networks))
	for i, n := range networks {
		text[i] = n.String()
	}
	return strings.Join(text, ",")
}
