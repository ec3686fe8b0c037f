package parts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// everyReason is a request that triggers each layer: a flagged block, personal data, more tools than an agent may send, equal results, a temperature of 0.
func everyReason(t *testing.T) *chat.Request {
	t.Helper()
	var tools []string
	for n := range 30 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"get_%d","description":"Gets it.","parameters":{"type":"object"}}}`, n))
	}
	rows := strings.Repeat("the parcel left the depot, and all is well\n", 300)
	body := `{"model":"m","max_tokens":100,"temperature":0,"messages":[{"role":"system","content":[{"type":"text","text":"ETH is at 3012.","bardo":"volatile"},{"type":"text","text":"Watch the parcels.","bardo":"static"}]},` +
		message("user", "Tell john@example.com what is new, in a word") + "," + called(1, rows) + "," +
		strings.ReplaceAll(called(1, rows), `"c1"`, `"c2"`) + `,` + message("user", "and now?") + `],"tools":[` + strings.Join(tools, ",") + `]}`
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestD30WhatEnclavesGet: a request to an enclave is not cached, shortened or masked, since the receipt covers the answer to what was sent; an end-to-end
// encrypted request only passes the operator's rules.
func TestD30WhatEnclavesGet(t *testing.T) {
	enclave := func(also ...policy.Feature) []policy.Resolution {
		r := policy.Resolution{Provider: "p", Model: "m", Features: append(also, policy.TEEAttested), MinCache: 1024}
		other := r
		other.Provider = "q"
		return []policy.Resolution{r, other}
	}
	open := policy.Resolution{Provider: "o", Model: "m", MinCache: 1024}
	const all, attested, masked = "l1 l3 l4 l5 l6 l7 l8", "l1 l4 l6 l8", "l1 l4 l6 l7 l8"
	for about, row := range map[string]struct {
		in    policy.Intent
		found []policy.Resolution
		want  string
	}{
		"an ordinary request":             {policy.Intent{}, enclave(), all},
		"no log":                          {policy.Intent{PrivacyTier: policy.PrivacyNoLog}, enclave(), all},
		"the tier tee":                    {policy.Intent{PrivacyTier: policy.PrivacyTEE}, enclave(), attested},
		"the tier tee, relaxed":           {policy.Intent{PrivacyTier: policy.PrivacyTEE}, append(enclave(), open), masked},
		"an enclave is required":          {policy.Intent{Require: []policy.Feature{policy.TEEAttested}}, enclave(), attested},
		"an enclave is preferred":         {policy.Intent{Prefer: []policy.Feature{policy.TEEAttested}}, append(enclave(), open), masked},
		"preferred, and nobody has one":   {policy.Intent{Prefer: []policy.Feature{policy.TEEAttested}}, []policy.Resolution{open, open}, all},
		"the tier e2e":                    {policy.Intent{PrivacyTier: policy.PrivacyEndToEnd}, enclave(policy.EndToEndEncryption), ""},
		"end-to-end encryption, required": {policy.Intent{Require: []policy.Feature{policy.EndToEndEncryption}}, enclave(policy.EndToEndEncryption), ""},
	} {
		r := everyReason(t)
		x := &pipeline.Exchange{
			ID: "req_x", Request: r, Principal: policy.Principal{Account: "a"}, Profile: pipeline.ProfileFull, Intent: row.in, Found: row.found,
			Hints: policy.Hints{GolemID: "g"},
		}
		if err := pipeline.New(everyLayerOf(t)...).Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		var ran []string
		for i := range x.Log {
			if name := x.Log[i].Layer; strings.HasPrefix(name, "l") && (name != "l3" || x.Cache != nil) {
				ran = append(ran, name)
			}
		}
		slices.Sort(ran)
		if got := strings.Join(ran, " "); got != row.want {
			t.Errorf("%s: %s ran, want %s", about, got, row.want)
		}
		if changed := x.Request != r; changed != (row.want != "") {
			t.Errorf("%s: the request is changed: %v", about, changed)
		}
		if sent := string(x.Request.Doc.Bytes); strings.Contains(sent, "john@") == strings.Contains(row.want, "l7") {
			t.Errorf("%s: masked: %v", about, !strings.Contains(sent, "john@"))
		}
	}
}
