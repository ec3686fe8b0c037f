package route

import (
	"cmp"
	"strings"
	"testing"

	"bardo.money/gateway/internal/header"
)

// TestB22ADryRunShowsTheSecondCandidate of requests that are hedged, by what it knows of them.
func TestB22ADryRunShowsTheSecondCandidate(t *testing.T) {
	const on = "  hedging: {after: 1500ms, share_pct: 7}\n"
	ask := func(hints ...header.Field) request { return request{Model: "m", Hints: hints} }
	for _, row := range []struct {
		about, rules, more string
		ask                request
		want               string
	}{
		{"hedged", on, "", ask(), "b"},
		{"off by default", "", "", ask(), ""},
		{"no retries", on + "  max_retries: 0\n", "", ask(), ""},
		{"its hint", on, "", ask(header.Field{Name: "x-bardo-hedge", Value: "off"}), ""},
		{"its hint says nothing else", on, "", ask(header.Field{Name: "x-bardo-hedge", Value: "auto"}), "b"},
		{"a search", on, "", ask(header.Field{Name: "x-bardo-web-search", Value: "true"}), ""},
		{"verified", on, "", ask(header.Field{Name: "x-bardo-verify", Value: "true"}), ""},
		{"one provider left", on, "billing: {tiers: {free: {exclude: [b, c]}}}\n", request{Model: "m", Tier: "free"}, ""},
	} {
		rules := "routing:\n  strategy: ordered\n" + row.rules
		dry, err := row.ask.dry()
		if err != nil {
			t.Fatal(err)
		}
		e, err := explain(adapters, nil, configOf(t, threeServers+rules+row.more), nil, nil, dry)
		if err != nil || e.Error != "" {
			t.Fatal(row.about, err, e.Error)
		}
		got := ""
		if e.Hedge != nil {
			got = string(e.Hedge.Provider)
		}
		if got != row.want {
			t.Errorf("%s: %+v, want %q", row.about, e.Hedge, row.want)
		}
		line := cmp.Or(map[bool]string{true: "hedged: if a gives no content for 1500 ms, b/m is called as well, for at most 7 % of requests\n"}[row.want != ""], "\n")
		if text := e.Text(); !strings.Contains(text, line) || strings.Contains(text, "hedged:") != (row.want != "") {
			t.Errorf("%s: %s", row.about, text)
		}
		const member = `"hedge": {
    "provider": "b",
    "model": "m",
    "after_ms": 1500,
    "share_pct": 7
  }`
		if strings.Contains(string(e.JSON()), member) != (row.want != "") {
			t.Errorf("%s: %s", row.about, e.JSON())
		}
	}
}
