package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/usage"
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
		networks, err := parseNetworks(c.in)
		got := fmt.Sprint(networks)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s: %q gives %s, %v, want %s", c.sentence, c.in, got, err, c.want)
		}
	}
}

func TestRequestsPerMinuteOfAKey(t *testing.T) {
	for in, want := range map[string]int{"1": 1, "600": 600, "0": policy.Unlimited, "default": 0} {
		if got, err := parseRPM(in); got != want || err != nil {
			t.Errorf("--rpm %s is %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "1.5", "99999999999", "none"} {
		if got, err := parseRPM(in); err == nil {
			t.Errorf("--rpm %q is %d, want an error", in, got)
		}
	}
}

func TestPoliciesOfAKey(t *testing.T) {
	for _, all := range [][]string{policy.InjectionPolicies, policy.PIIPolicies} {
		for _, in := range all {
			if got, err := parsePolicy("--x", in, all); got != in || err != nil {
				t.Errorf("%s is %q, %v", in, got, err)
			}
		}
		if got, err := parsePolicy("--x", "default", all); got != "" || err != nil {
			t.Errorf("the default is %q, %v", got, err)
		}
		for _, in := range []string{"", "on", "Block", "block ", "block,mask"} {
			if got, err := parsePolicy("--x", in, all); err == nil {
				t.Errorf("--x %q is %q, want an error", in, got)
			}
		}
	}
	for want, g := range map[string]policy.Guards{"default": {}, "injection=block": {Injection: "block"}, "injection=off,pii=mask": {Injection: "off", PII: "mask"}} {
		if got := guardsText(g); got != want {
			t.Errorf("%+v is printed %s, want %s", g, got, want)
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

func TestDaysOfUsage(t *testing.T) {
	now := time.Date(2026, 3, 1, 1, 0, 0, 0, time.FixedZone("east", 9*3600)) // still February in UTC
	for in, want := range map[string]string{"0": "2026-02-28", "7": "2026-02-21", "2024-02-29": "2024-02-29"} {
		if got, err := parseDay("--since", in, now); err != nil || got.Format(time.DateOnly) != want {
			t.Errorf("--since %s is %s, %v, want %s", in, got, err, want)
		}
	}
	if got, err := parseDay("--since", "", now); !got.IsZero() || err != nil {
		t.Errorf("no day is %s, %v", got, err)
	}
	for _, in := range []string{"-1", "yesterday", "2026-02-30", "2026-2-3", "70000"} {
		if got, err := parseDay("--since", in, now); err == nil {
			t.Errorf("--since %q is %s, want an error", in, got)
		}
	}
}

func TestWhatClientsChoseIsShownHarmlessly(t *testing.T) {
	for in, want := range map[string]string{"": "-", "plain": "plain", "\x1b]0;x\a": `"\x1b]0;x\a"`, "a\tb": `"a\tb"`, "Zoë": "Zoë"} {
		if got := cli.Printable(in); got != want {
			t.Errorf("a terminal shows %q as %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"": "", "plain": "plain", "=1+1": "'=1+1", "@x": "'@x", "-1": "'-1"} {
		if got := usage.Inert(in); got != want {
			t.Errorf("a spreadsheet gets %q as %s, want %s", in, got, want)
		}
	}
}
