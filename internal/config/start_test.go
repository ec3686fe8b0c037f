package config_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
)

// TestWhatIsReadAtTheStartIsNamed: exactly the keys whose documentation says so are reported when their values change.
func TestWhatIsReadAtTheStartIsNamed(t *testing.T) {
	parse := func(text string) *config.Config {
		cfg, problems := config.Parse("a.yaml", []byte(text), func(string) (string, bool) { return "", false }, kinds...)
		if config.Failed(problems) {
			t.Fatal(problems)
		}
		return cfg
	}
	for _, row := range []struct{ after, want string }{
		{"{}", ""},
		{"{data_path: module}", "data_path"},
		{"{listen: {admin: 127.0.0.1:1, http: 127.0.0.1:2, ui: off}}", "listen.admin listen.ui"},
		{"{routing: {ping_interval: 1s, max_retries: 1}}", "routing.ping_interval"},
		{"{store: {cache_timeout: 1s}, extproc: {node: x}}", "store.cache_timeout extproc"},
		{"{models: {refresh: 5h, threads: 2}}", "models.threads"},
		{"{providers: {blockrun: {api_key: k}}}", ""},
		{"{providers: {blockrun: {wallet_key: " + strings.Repeat("1", 64) + "}}}", "providers.blockrun.wallet_key"},
		{"{telemetry: {log_level: debug}, billing: {spread_pct: 5}}", ""},
	} {
		before, after := parse("{}"), parse(row.after)
		if got := strings.Join(config.AtStart(before, after), " "); got != row.want {
			t.Errorf("%s: %q, want %q", row.after, got, row.want)
		}
		if got := strings.Join(config.AtStart(after, before), " "); got != row.want {
			t.Errorf("%s is left: %q, want %q", row.after, got, row.want)
		}
		if got := config.AtStart(after, parse(row.after)); len(got) > 0 {
			t.Errorf("%s: the same configuration differs in %q", row.after, got)
		}
	}
	marked := config.ReadAtStart()
	for _, f := range config.Schema(kinds...) {
		says := strings.Contains(f.Doc, "Read at the start.") || strings.Contains(f.Doc, "takes effect at the next start")
		if is := slices.Contains(marked, f.Key); says != is {
			t.Errorf("%s: read at the start alone: %v, and its text says %v", f.Key, is, says)
		}
	}
}
