package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// defaultTier is the plan of a key that is made without one.
const defaultTier = policy.TierPro

func keysCommand() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "Make, list, change and revoke API keys"}
	c.AddCommand(keysCreateCommand(), keysListCommand(), keysUpdateCommand(), keysRevokeCommand())
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
	c := &cobra.Command{
		Use: "create --name NAME", Short: "Make an API key; its secret is shown once", Args: cobra.NoArgs,
		Long: "Make an API key. With --balance-usd it is prepaid: requests are paid from its balance and refused without one.\n" +
			"Otherwise it is metered: what it uses is counted, and no balance limits it.",
	}
	f.add(c)
	c.Flags().StringVar(&balance, "balance-usd", "", "make the key prepaid, with this opening balance")
	asJSON := jsonFlag(c)
	configFlag(c)
	_ = c.MarkFlagRequired("name") // fails only for a flag that is not there
	c.RunE = withLedger(func(c *cobra.Command, t tool, _ []string) error {
		spec := keySpec{row: ledger.KeyRow{Tier: defaultTier}}
		if err := f.apply(c, &spec.row); err != nil {
			return err
		}
		if c.Flags().Changed("balance-usd") {
			amount, err := parseAmount("--balance-usd", balance)
			if err != nil {
				return err
			}
			spec.row.Prepaid, spec.opening = true, amount
		}
		pepper, err := t.home.pepper()
		if err != nil {
			return err
		}
		id, secret, err := createKey(c.Context(), t.books, pepper, spec)
		if err != nil {
			return err
		}
		k := newKey{ID: id, Key: secret, Name: spec.row.Name, Tier: spec.row.Tier}
		if spec.row.Prepaid {
			k.Balance = &spec.opening
		}
		if *asJSON {
			return printJSON(c, k)
		}
		return k.print(c)
	})
	return c
}

func (k newKey) print(c *cobra.Command) error {
	balance := "metered"
	if k.Balance != nil {
		balance = dollars(*k.Balance)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "id       %s\nname     %s\ntier     %s\nbalance  %s\nkey      %s\n\nThe key is shown this once: keep it now.\n",
		k.ID, k.Name, k.Tier, balance, k.Key)
	return err
}

func keysUpdateCommand() *cobra.Command {
	var f keyFlags
	c := &cobra.Command{
		Use: "update ID", Short: "Change an API key; what no flag names stays", Args: oneArg("the key's id"),
		Long: "Change an API key while the gateway runs or not. What no flag names stays as it is.\n" +
			"A key stays prepaid or metered; `bardo deposit` adds to a balance.",
	}
	f.add(c)
	asJSON := jsonFlag(c)
	configFlag(c)
	c.RunE = withLedger(func(c *cobra.Command, t tool, args []string) error {
		id, err := keyID(args[0])
		if err != nil {
			return err
		}
		if !f.any(c) {
			return errors.New("nothing to change: give at least one of --name, --tier, --limit-usd-day, --rpm, --ip, --read-only")
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
	c := &cobra.Command{Use: "revoke ID", Short: "End an API key for good; its balance stays in the books", Args: oneArg("the key's id")}
	asJSON := jsonFlag(c)
	configFlag(c)
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
	c := &cobra.Command{Use: "list", Short: "List the API keys, without their secrets", Args: cobra.NoArgs}
	asJSON := jsonFlag(c)
	configFlag(c)
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
			return printJSON(c, keys)
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
	Created  time.Time      `json:"created_at"`
	Revoked  *time.Time     `json:"revoked_at"`
}

func (t tool) keyInfo(c *cobra.Command, k ledger.KeyRow) (keyInfo, error) {
	info := keyInfo{
		ID: k.ID, Name: k.Name, Tier: k.Tier, Networks: append([]netip.Prefix{}, k.Networks...), ReadOnly: k.ReadOnly,
		Created: k.CreatedAt.UTC(),
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
		return printJSON(c, info)
	}
	return printKeys(c, []keyInfo{info})
}

func printKeys(c *cobra.Command, keys []keyInfo) error {
	rows := make([][]string, len(keys))
	for i, k := range keys {
		rows[i] = k.cells()
	}
	return printTable(c.OutOrStdout(), []string{"ID", "NAME", "TIER", "BALANCE", "LIMIT/DAY", "RPM", "FROM", "STATE", "CREATED"}, rows)
}

func (k keyInfo) cells() []string {
	balance, limit, rpm, from, state := "metered", "none", "default", "anywhere", "active"
	if k.Balance != nil {
		balance = dollars(*k.Balance)
	}
	if k.SpendDay != nil {
		limit = dollars(*k.SpendDay)
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
	if k.Revoked != nil {
		state = "revoked"
	}
	return []string{string(k.ID), k.Name, string(k.Tier), balance, limit, rpm, from, state, k.Created.Format(time.DateOnly)}
}

func joinNetworks(networks []netip.Prefix) string {
	text := make([]string, len(networks))
	for i, n := range networks {
		text[i] = n.String()
	}
	return strings.Join(text, ",")
}

// keyFlags are what may be said about a key, new or not.
type keyFlags struct {
	name, tier, spendDay, rpm string
	networks                  []string
	readOnly                  bool
}

func (f *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "name", "", "what people call it")
	c.Flags().StringVar(&f.tier, "tier", "", "plan: free, pro or golem; a new key has "+string(defaultTier))
	c.Flags().StringVar(&f.spendDay, "limit-usd-day", "", "most it may spend per UTC day; 0 means no limit")
	c.Flags().StringVar(&f.rpm, "rpm", "", "generation requests per minute; 0 means no limit, \"default\" the configured one")
	c.Flags().StringSliceVar(&f.networks, "ip", nil, "address or network (CIDR) that it may be used from, or \"any\"; may be repeated")
	c.Flags().BoolVar(&f.readOnly, "read-only", false, "it may read models, balance and usage, and not generate")
}

// any reports whether a flag was given.
func (f *keyFlags) any(c *cobra.Command) bool {
	given := false
	for _, name := range []string{"name", "tier", "limit-usd-day", "rpm", "ip", "read-only"} {
		given = given || c.Flags().Changed(name)
	}
	return given
}

// apply puts the flags that were given into a key.
func (f *keyFlags) apply(c *cobra.Command, k *ledger.KeyRow) (err error) {
	given := c.Flags().Changed
	if given("name") {
		if k.Name, err = parseName(f.name); err != nil {
			return err
		}
	}
	if given("tier") {
		if k.Tier, err = parseTier(f.tier); err != nil {
			return err
		}
	}
	if given("limit-usd-day") {
		if k.SpendDay, err = parseAmount("--limit-usd-day", f.spendDay); err != nil {
			return err
		}
		if k.SpendDay == 0 {
			k.SpendDay = policy.Unlimited
		}
	}
	if given("rpm") {
		if k.RPM, err = parseRPM(f.rpm); err != nil {
			return err
		}
	}
	if given("ip") {
		if k.Networks, err = parseNetworks(f.networks); err != nil {
			return err
		}
	}
	if given("read-only") {
		k.ReadOnly = f.readOnly
	}
	return nil
}

const maxName = 100

func parseName(s string) (string, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return "", errors.New("--name is empty")
	case len(s) > maxName:
		return "", fmt.Errorf("--name is longer than %d bytes", maxName)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", fmt.Errorf("--name %q holds a character that cannot be printed", s)
	}
	return s, nil
}

func parseTier(s string) (policy.Tier, error) {
	switch t := policy.Tier(s); t {
	case policy.TierFree, policy.TierPro, policy.TierGolem:
		return t, nil
	default:
		return "", fmt.Errorf("--tier %q, expected free, pro or golem", s)
	}
}

// parseAmount reads dollars that are not negative.
func parseAmount(flag, s string) (policy.Micro, error) {
	amount, err := policy.ParseUSD(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	if amount < 0 {
		return 0, fmt.Errorf("%s: %q is negative", flag, s)
	}
	return amount, nil
}

func parseRPM(s string) (int, error) {
	if s == "default" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("--rpm %q, expected a number of requests per minute, 0 for no limit, or default", s)
	}
	if n == 0 {
		return policy.Unlimited, nil
	}
	return int(n), nil
}

// parseNetworks reads networks and plain addresses; any alone lifts every restriction. An empty list is refused, so that
// an empty variable in a script does not open a key to the world.
func parseNetworks(list []string) ([]netip.Prefix, error) {
	if len(list) == 1 && list[0] == "any" {
		return nil, nil
	}
	networks := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		n, err := parseNetwork(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		networks = append(networks, n)
	}
	if len(networks) == 0 {
		return nil, errors.New("--ip is empty, expected an address, a network such as 10.0.0.0/8, or any")
	}
	return networks, nil
}

// parseNetwork reads one network. IPv4 inside IPv6 is plain IPv4, as clients' addresses are.
func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	n, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("--ip %q, expected an address, a network such as 10.0.0.0/8, or any", s)
	}
	const mapped = 96 // bits before the IPv4 address
	if n.Addr().Is4In6() && n.Bits() >= mapped {
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mapped)
	}
	return n.Masked(), nil
}

// oneArg wants one argument.
func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one argument, %s, and was given %d", c.CommandPath(), what, len(args))
		}
		return nil
	}
}

// keyID reads the id of a key. A whole key is refused, without repeating it: it does not belong on a command line.
func keyID(arg string) (policy.Account, error) {
	if strings.HasPrefix(arg, "bardo_") {
		return "", errors.New("give the key's id, which `bardo keys list` shows, and not the key itself")
	}
	return policy.Account(arg), nil
}
