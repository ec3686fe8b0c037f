package admin

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/policy"
)

func TestNetworksOfAKey(t *testing.T) {
	for _, c := range []struct {
		sentence string
		in       []string
		want     string // "error" for a refusal
	}{
		{"a network", []string{"10.0.0.0/8"}, "[10.0.0.0/8]"},
		{"a network with bits of a host", []string{"10.1.2.3/8"}, "[10.0.0.0/8]"},
		{"an address", []string{"192.0.2.7"}, "[192.0.2.7/32]"},
		{"an IPv6 address", []string{"2001:db8::1"}, "[2001:db8::1/128]"},
		{"IPv4 inside IPv6 is IPv4", []string{"::ffff:192.0.2.7"}, "[192.0.2.7/32]"},
		{"a network of those too", []string{"::ffff:10.0.0.0/104"}, "[10.0.0.0/8]"},
		{"several", []string{"10.0.0.0/8", " 192.0.2.7"}, "[10.0.0.0/8 192.0.2.7/32]"},
		{"any lifts the restriction", []string{"any"}, "[]"},
		{"any beside a network is a mistake", []string{"any", "10.0.0.0/8"}, "error"},
		{"nothing is a mistake", nil, "error"},
		{"an empty word is a mistake", []string{""}, "error"},
		{"a name is a mistake", []string{"example.org"}, "error"},
		{"an address with a zone is a mistake", []string{"fe80::1%eth0"}, "error"},
		{"a mask that is too long is a mistake", []string{"10.0.0.0/33"}, "error"},
	} {
		networks, err := parseNetworks(Set(c.in))
		got := fmt.Sprint(networks)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s: %q gives %s, %v, want %s", c.sentence, c.in, got, err, c.want)
		}
	}
}

func TestPoliciesOfAKey(t *testing.T) {
	for _, p := range []struct {
		all []string
		set func(string) GuardFields
		got func(policy.Guards) string
	}{
		{policy.InjectionPolicies, func(s string) GuardFields { return GuardFields{Injection: Set(s)} }, func(g policy.Guards) string { return g.Injection }},
		{policy.PIIPolicies, func(s string) GuardFields { return GuardFields{PII: Set(s)} }, func(g policy.Guards) string { return g.PII }},
	} {
		g := policy.Guards{}
		for _, in := range p.all {
			f := p.set(in)
			if err := f.apply(&g); err != nil || p.got(g) != in {
				t.Errorf("%s is %q, %v", in, p.got(g), err)
			}
		}
		f := p.set("default")
		if err := f.apply(&g); err != nil || p.got(g) != "" {
			t.Errorf("the default is %q, %v", p.got(g), err)
		}
		for _, in := range []string{"", "on", "Block", "block ", "block,mask"} {
			f := p.set(in)
			if err := f.apply(&g); err == nil {
				t.Errorf("%q is %q, want an error", in, p.got(g))
			}
		}
	}
}

func TestNamesOfKeys(t *testing.T) {
	for _, in := range []string{"", "  ", "a\nb", "\x1b[31m", strings.Repeat("x", 101)} {
		if _, err := parseName(in); err == nil {
			t.Errorf("%q is a name", in)
		}
	}
	if got, err := parseName("Zoë's agent"); got != "Zoë's agent" || err != nil {
		t.Errorf("a usual name gives %q, %v", got, err)
	}
}
