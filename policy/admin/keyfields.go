package admin

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// KeyFields are the members of a key that can be set when it is created and changed later. The names are those of Key.
type KeyFields struct {
	Name       Field[string]       `json:"name,omitzero"`
	Tier       Field[policy.Tier]  `json:"tier,omitzero"`
	Credit     Field[policy.Micro] `json:"credit_usd,omitzero"`
	SpendDay   Field[policy.Micro] `json:"limit_usd_day,omitzero"` // null and 0: no limit
	SpendMonth Field[policy.Micro] `json:"limit_usd_month,omitzero"`
	RPM        Field[int]          `json:"rpm,omitzero"` // null: the configured limit; 0: no limit
	Networks   Field[[]string]     `json:"ip,omitzero"`  // null: from anywhere
	ReadOnly   Field[bool]         `json:"read_only,omitzero"`
	Guards     GuardFields         `json:"policies,omitzero"`
	Models     Field[[]string]     `json:"models,omitzero"` // null: any
	Subsystems Field[[]string]     `json:"subsystems,omitzero"`
	Origins    Field[[]string]     `json:"origins,omitzero"`
	Expires    Field[time.Time]    `json:"expires_at,omitzero"` // null: never
	Project    Field[string]       `json:"project,omitzero"`    // null: none
}

// GuardFields are a key's own policies; null selects the configured one.
type GuardFields struct {
	Injection Field[string] `json:"injection,omitzero"`
	PII       Field[string] `json:"pii,omitzero"`
}

// UnmarshalJSON applies the rules of Decode.
func (g *GuardFields) UnmarshalJSON(b []byte) error {
	type plain GuardFields
	return Decode(b, (*plain)(g))
}

// Empty reports whether no member is given.
func (f *KeyFields) Empty() bool {
	for _, v := range members(reflect.ValueOf(f).Elem()) {
		if !v.IsZero() {
			return false
		}
	}
	return true
}

// apply sets the given fields of a key.
func (f *KeyFields) apply(k *ledger.KeyRow) error {
	for _, step := range []func(*ledger.KeyRow) error{f.applyName, f.applyMoney, f.applyUse, f.applyScope} {
		if err := step(k); err != nil {
			return err
		}
	}
	return f.Guards.apply(&k.Guards)
}

func (f *KeyFields) applyName(k *ledger.KeyRow) (err error) {
	if f.Name.Given {
		if k.Name, err = parseName(f.Name.Value); err != nil {
			return err
		}
	}
	if f.Tier.Given {
		switch t := f.Tier.Value; t {
		case policy.TierFree, policy.TierPro, policy.TierGolem:
			k.Tier = t
		default:
			return invalid("tier", " %q, expected free, pro or golem", fault.Clip(string(t)))
		}
	}
	if f.Project.Given {
		if p := f.Project.Value; p == "" && !f.Project.Null || !isPlain(p) {
			return invalid("project", " is empty, expected the id of a project, or none")
		}
		k.Project = f.Project.Value
	}
	return nil
}

func (f *KeyFields) applyMoney(k *ledger.KeyRow) (err error) {
	for _, m := range []struct {
		name  string
		given Field[policy.Micro]
		into  *policy.Micro
	}{{"credit_usd", f.Credit, &k.Credit}, {"limit_usd_day", f.SpendDay, &k.SpendDay}, {"limit_usd_month", f.SpendMonth, &k.SpendMonth}} {
		if !m.given.Given {
			continue
		}
		if *m.into, err = parseAmount(m.name, m.given.Value); err != nil {
			return err
		}
	}
	if f.SpendDay.Given && k.SpendDay == 0 {
		k.SpendDay = policy.Unlimited
	}
	if k.Credit > 0 && !k.Prepaid {
		return invalid("credit_usd", ": the key is metered: it has no balance")
	}
	return nil
}

func (f *KeyFields) applyUse(k *ledger.KeyRow) (err error) {
	if f.RPM.Given {
		switch n := f.RPM.Value; {
		case f.RPM.Null:
			k.RPM = 0
		case n < 0 || n > maxRPM:
			return invalid("rpm", " %d, expected a number of requests per minute, 0 for no limit, or null for the configured one", n)
		case n == 0:
			k.RPM = policy.Unlimited
		default:
			k.RPM = n
		}
	}
	if f.Networks.Given {
		if k.Networks, err = parseNetworks(f.Networks); err != nil {
			return err
		}
	}
	if f.ReadOnly.Given {
		k.ReadOnly = f.ReadOnly.Value
	}
	if f.Expires.Given {
		if k.Expires = f.Expires.Value; !f.Expires.Null && !k.Expires.After(time.Now()) {
			return invalid("expires_at", " %s, expected a time to come", k.Expires.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

func (f *KeyFields) applyScope(k *ledger.KeyRow) (err error) {
	for _, l := range []struct {
		name  string
		given Field[[]string]
		into  *[]string
		check func(string) (string, string)
	}{{"models", f.Models, &k.Models, checkModel}, {"subsystems", f.Subsystems, &k.Subsystems, checkSubsystem}, {"origins", f.Origins, &k.Origins, checkOrigin}} {
		if !l.given.Given {
			continue
		}
		if *l.into, err = parseList(l.name, l.given, l.check); err != nil {
			return err
		}
	}
	return nil
}

func (g *GuardFields) apply(to *policy.Guards) error {
	for _, p := range []struct {
		name  string
		given Field[string]
		into  *string
		all   []string
	}{{"policies.injection", g.Injection, &to.Injection, policy.InjectionPolicies}, {"policies.pii", g.PII, &to.PII, policy.PIIPolicies}} {
		switch v := p.given.Value; {
		case !p.given.Given:
		case p.given.Null || v == "default":
			*p.into = ""
		case !slices.Contains(p.all, v):
			return invalid(p.name, " %q, expected %s or default", fault.Clip(v), strings.Join(p.all, ", "))
		default:
			*p.into = v
		}
	}
	return nil
}

const (
	maxName   = 100 // bytes
	maxRPM    = 1<<31 - 1
	maxListed = 100
	maxItem   = 200 // bytes
)

// parseName reads a display name.
func parseName(s string) (string, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return "", invalid("name", " is empty")
	case len(s) > maxName:
		return "", invalid("name", " is longer than %d bytes", maxName)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", invalid("name", " %q holds a character that cannot be printed", s)
	}
	return s, nil
}

// parseAmount checks that an amount of dollars is not negative.
func parseAmount(member string, m policy.Micro) (policy.Micro, error) {
	if m < 0 {
		return 0, invalid(member, ": %q is negative", m)
	}
	if m > MaxAmount {
		return 0, invalid(member, ": %q is more than %s", m, MaxAmount)
	}
	return m, nil
}

// isUnrestricted reports whether a list removes the restriction: null, or "any" as the only element.
func isUnrestricted(f Field[[]string]) bool {
	return f.Null || len(f.Value) == 1 && f.Value[0] == "any"
}

// parseNetworks reads networks and plain addresses. An empty list is refused, because it is ambiguous: it could admit nobody or everybody.
func parseNetworks(f Field[[]string]) ([]netip.Prefix, error) {
	if isUnrestricted(f) {
		return nil, nil
	}
	if len(f.Value) == 0 || len(f.Value) > maxListed {
		return nil, invalid("ip", " is empty, or has more than %d entries, expected an address, a network such as 10.0.0.0/8, or any", maxListed)
	}
	networks := make([]netip.Prefix, len(f.Value))
	for i, s := range f.Value {
		n, err := parseNetwork(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		networks[i] = n
	}
	return networks, nil
}

// parseNetwork reads one network. An IPv4-mapped IPv6 network becomes IPv4, as clients' addresses do.
func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	n, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, invalid("ip", " %q, expected an address, a network such as 10.0.0.0/8, or any", fault.Clip(s))
	}
	const mapped = 96 // bits before the IPv4 address
	if n.Addr().Is4In6() && n.Bits() >= mapped {
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mapped)
	}
	return n.Masked(), nil
}

// parseList reads a list of restrictions. An empty list is refused, as in parseNetworks.
func parseList(member string, f Field[[]string], check func(string) (item, problem string)) ([]string, error) {
	if isUnrestricted(f) {
		return nil, nil
	}
	var list []string
	for _, s := range f.Value {
		s = strings.TrimSpace(s)
		if s == "" || len(s) > maxItem || strings.ContainsFunc(s, unicode.IsControl) {
			return nil, invalid(member, ": an entry is empty, longer than %d bytes, or has a control character", maxItem)
		}
		s, problem := check(s)
		if problem != "" {
			return nil, invalid(member, ": %s", problem)
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	if len(list) == 0 || len(list) > maxListed {
		return nil, invalid(member, ": expected 1 to %d entries, or any", maxListed)
	}
	return list, nil
}
