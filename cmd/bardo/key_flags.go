package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// keyFlags are the flags for the fields of a key, new or not.
type keyFlags struct {
	name, tier, spendDay, rpm string
	networks                  []string
	injection, pii            string
	readOnly                  bool
	scope                     scopeFlags
}

func (f *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "name", "", "a name for people")
	c.Flags().StringVar(&f.tier, "tier", "", "plan: free, pro or golem; a new key has "+string(home.DefaultTier))
	cli.Completes(c, "tier", "free", "pro", "golem")
	c.Flags().StringVar(&f.spendDay, "limit-usd-day", "", "most it may spend per UTC day; 0 means no limit")
	c.Flags().StringVar(&f.rpm, "rpm", "", "generation requests per minute; 0 means no limit, \"default\" the configured one")
	c.Flags().StringSliceVar(&f.networks, "ip", nil, "address or network (CIDR) that it may be used from, or \"any\"; may be repeated")
	c.Flags().StringVar(&f.injection, "injection", "", "texts that seem to hold instructions: off, flag, block, quarantine, or \"default\" for the configured policy")
	cli.Completes(c, "injection", append([]string{defaultPolicy}, policy.InjectionPolicies...)...)
	c.Flags().StringVar(&f.pii, "pii", "", "personal data and secrets: off, detect, mask, block, or \"default\" for the configured policy")
	cli.Completes(c, "pii", append([]string{defaultPolicy}, policy.PIIPolicies...)...)
	f.scope.add(c)
	c.Flags().BoolVar(&f.readOnly, "read-only", false, "it may read models, balance and usage, and not generate")
}

// any reports whether a flag was given.
func (f *keyFlags) any(c *cobra.Command) bool {
	given := false
	for _, name := range append([]string{"name", "tier", "limit-usd-day", "rpm", "ip", "read-only", "injection", "pii"}, scopeNames...) {
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
	if err := f.scope.apply(c, k); err != nil {
		return err
	}
	return f.applyGuards(c, &k.Guards)
}

// applyGuards puts the policies that were given into those of a key.
func (f *keyFlags) applyGuards(c *cobra.Command, g *policy.Guards) (err error) {
	if c.Flags().Changed("injection") {
		if g.Injection, err = parsePolicy("--injection", f.injection, policy.InjectionPolicies); err != nil {
			return err
		}
	}
	if c.Flags().Changed("pii") {
		g.PII, err = parsePolicy("--pii", f.pii, policy.PIIPolicies)
	}
	return err
}

// defaultPolicy is the configured policy.
const defaultPolicy = "default"

// parsePolicy reads one of the policies of a flag; "" is the configured one.
func parsePolicy(flag, s string, all []string) (string, error) {
	switch {
	case s == defaultPolicy:
		return "", nil
	case slices.Contains(all, s):
		return s, nil
	}
	return "", fmt.Errorf("%s %q, expected %s or %s", flag, s, strings.Join(all, ", "), defaultPolicy)
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

// keyID reads the id of a key. A whole key is refused, without repeating it: it does not belong on a command line.
func keyID(arg string) (policy.Account, error) {
	if strings.HasPrefix(arg, "bardo_") {
		return "", errors.New("give the key's id, which `bardo keys list` shows, and not the key itself")
	}
	return policy.Account(arg), nil
}
