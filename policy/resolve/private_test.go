package resolve_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

const openAndPrivate = `
providers:
  order: [open, vault]
  custom:
    - {id: open, endpoints: [http://localhost:1/v1], models: [{id: plain}]}
    - {id: vault, private: true, endpoints: [http://localhost:2/v1], models: [{id: tooled}]}
`

// A custom provider that is private comes first where privacy is asked for, as Venice does, and in the operator's order for all else.
func TestACustomPrivateProviderServesWhatAsksForPrivacy(t *testing.T) {
	r := made(t, three, openAndPrivate)
	for _, row := range []struct {
		about  string
		mode   resolve.Mode
		change func(*policy.Intent)
		want   string
	}{
		{"nothing is asked", resolve.ModeUnset, func(*policy.Intent) {}, "open/plain; vault/tooled"},
		{"privacy is preferred", resolve.ModeUnset, func(in *policy.Intent) { in.Prefer = []policy.Feature{policy.Privacy} }, "vault/tooled; open/plain lacks privacy"},
		{"privacy is required", resolve.ModeUnset, func(in *policy.Intent) { in.Require = []policy.Feature{policy.Privacy} }, "vault/tooled; open/plain lacks privacy"},
		{"no log is preferred", resolve.ModeUnset, func(in *policy.Intent) { in.Prefer = []policy.Feature{policy.NoLog} }, "vault/tooled; open/plain lacks no_log"},
		{"it has to be private", resolve.ModeUnset, func(in *policy.Intent) { in.Security = policy.SecurityPrivate }, "vault/tooled"},
		{"what only prefers it goes elsewhere in both", resolve.ModeBoth, func(in *policy.Intent) { in.Prefer = []policy.Feature{policy.Privacy} }, "open/plain lacks privacy; vault/tooled"},
		{"and an agent's with bardo", resolve.ModeBardo, func(in *policy.Intent) { in.Prefer = []policy.Feature{policy.Privacy} }, "open/plain lacks privacy; vault/tooled"},
		{
			"another client's does not", resolve.ModeBardo,
			func(in *policy.Intent) { in.Subsystem, in.Prefer = "", []policy.Feature{policy.Privacy} }, "vault/tooled; open/plain lacks privacy",
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			in := &policy.Intent{Subsystem: "curator", CostSensitivity: 0.5}
			row.change(in)
			if d := r.WithRules(resolve.Rules{Mode: row.mode, Strategy: resolve.Ordered}).Decide(in); ways(d.Order) != row.want {
				t.Errorf("got %s (%v), want %s", ways(d.Order), d.Err, row.want)
			}
		})
	}
}

// A specialist for other requests does not begin to serve because the only other provider comes first.
func TestAPrivateProviderLeavesSpecialistsAside(t *testing.T) {
	r := made(t, three, `
providers:
  bankr: {endpoint: https://b.test/v1, api_key: x, models: [{id: plain}]}
  custom: [{id: vault, private: true, endpoints: [http://localhost:2/v1], models: [{id: tooled}]}]
`)
	d := r.Decide(&policy.Intent{Subsystem: "curator", Prefer: []policy.Feature{policy.Privacy}})
	if got := ways(d.Order); got != "vault/tooled" {
		t.Errorf("got %s, %v", got, d.Err)
	}
}

// The error says why each provider does not serve a private request, and what helps where none is private.
func TestNoPrivateProviderSaysWhatToDo(t *testing.T) {
	alone := "providers: {custom: [{id: open, endpoints: [http://localhost:1/v1], models: [{id: plain}]}]}"
	for _, row := range []struct {
		about, config string
		in            policy.Intent
		want          string
	}{
		{
			"none is private", alone,
			policy.Intent{Subsystem: "curator", Security: policy.SecurityPrivate},
			"no provider meets the privacy requirement of this request: the operator can configure Venice, or a custom provider with private: true; " +
				"open: the request is private, and it may retain what it gets",
		},
		{
			"the private one does not have the model", openAndPrivate,
			policy.Intent{Model: "plain", Security: policy.SecurityPrivate},
			`no provider meets the privacy requirement of this request; open: the request is private, and it may retain what it gets; vault: the model "plain" does not exist at vault`,
		},
		{
			"the private one has no encryption", openAndPrivate,
			policy.Intent{Subsystem: "curator", PrivacyTier: policy.PrivacyEndToEnd},
			"no provider meets the privacy requirement of this request; open: the request is private, and it may retain what it gets; vault: the request's privacy tier is e2e, which it does not offer",
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			f := fault.From(made(t, three, row.config).Decide(&row.in).Err)
			if f.Kind != fault.NoPrivateProvider || !strings.HasPrefix(f.Public, row.want) {
				t.Errorf("%s: %s\nwant %s", f.Kind, f.Public, row.want)
			}
		})
	}
}
