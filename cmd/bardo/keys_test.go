package main

import (
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger/usage"
)

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
		if got := usage.EscapeFormula(in); got != want {
			t.Errorf("a spreadsheet gets %q as %s, want %s", in, got, want)
		}
	}
}

func TestRequestsPerMinuteOfAKey(t *testing.T) {
	for in, want := range map[string]admin.Field[int]{"1": admin.Set(1), "600": admin.Set(600), "0": admin.Set(0), "default": admin.Null[int]()} {
		if got, err := parseRPM(in); got != want || err != nil {
			t.Errorf("--rpm %s is %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "1.5", "99999999999", "none"} {
		if got, err := parseRPM(in); err == nil {
			t.Errorf("--rpm %q is %+v, want an error", in, got)
		}
	}
}

func TestPoliciesOfAKeyAreShown(t *testing.T) {
	for want, g := range map[string]policy.Guards{"default": {}, "injection=block": {Injection: "block"}, "injection=off,pii=mask": {Injection: "off", PII: "mask"}} {
		if got := guardsText(g); got != want {
			t.Errorf("%+v is printed %s, want %s", g, got, want)
		}
	}
}
