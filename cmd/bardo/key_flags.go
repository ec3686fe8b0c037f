package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
)

// keyFlags are the flags of a new or existing key's fields.
type keyFlags struct {
	name, tier, spendDay, rpm string
	networks                  []string
	injection, pii            string
	readOnly                  bool
	scope                     scopeFlags
}

func (f *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "name", "", "a name for people")
	c.Flags().StringVar(&f.tier, "tier", "", "plan: free, pro or golem; a new key has "+string(admin.DefaultTier))
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

// fields converts the given flags to fields.
func (f *keyFlags) fields(c *cobra.Command) (k admin.KeyFields, err error) {
	given := c.Flags().Changed
	if given("name") {
		k.Name = admin.Set(f.name)
	}
	if given("tier") {
		k.Tier = admin.Set(policy.Tier(f.tier))
	}
	if err := dollarFlag(c, "limit-usd-day", f.spendDay, &k.SpendDay); err != nil {
		return k, err
	}
	if given("rpm") {
		if k.RPM, err = parseRPM(f.rpm); err != nil {
			return k, err
		}
	}
	if given("ip") {
		k.Networks = listFlag(f.networks)
	}
	if given("read-only") {
		k.ReadOnly = admin.Set(f.readOnly)
	}
	if given("injection") {
		k.Guards.Injection = admin.Set(f.injection)
	}
	if given("pii") {
		k.Guards.PII = admin.Set(f.pii)
	}
	return k, f.scope.fields(c, &k)
}

// defaultPolicy stands for the configured policy.
const defaultPolicy = "default"

// listFlag reads a list. An empty list is passed on, and refused by the API, so that an empty variable in a script does not lift a key's restrictions.
func listFlag(given []string) admin.Field[[]string] { return admin.Set(append([]string{}, given...)) }

// dollarFlag reads dollars, if the flag is given.
func dollarFlag(c *cobra.Command, name, s string, into *admin.Field[policy.Micro]) error {
	if !c.Flags().Changed(name) {
		return nil
	}
	amount, err := policy.ParseUSD(s)
	if err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	*into = admin.Set(amount)
	return nil
}

func parseRPM(s string) (admin.Field[int], error) {
	if s == defaultPolicy {
		return admin.Null[int](), nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return admin.Field[int]{}, fmt.Errorf("--rpm %q, expected a number of requests per minute, 0 for no limit, or default", s)
	}
	return admin.Set(int(n)), nil
}
