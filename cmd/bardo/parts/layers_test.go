package parts_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"testing"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/run"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
)

// everyLayer is a configuration with every layer on.
const everyLayer = `
pipeline:
  hash: all
  semantic: shadow
  pii: {policy: mask}
  injection: {user: flag, policy: flag, on_error: allow}
  tools: {mode: on, meta: "off"}
  compression: {recall: on}
  firewall: {rules: [{id: quiet, deny: [shout]}]}
`

func everyLayerOf(t *testing.T) []pipeline.Layer {
	t.Helper()
	return layersOf(t, configOf(t, everyLayer))
}

func configOf(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, problems := config.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false }, parts.Kinds()...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return cfg
}

func layersOf(t *testing.T, cfg *config.Config) []pipeline.Layer {
	t.Helper()
	s := &run.Services{
		Answers: cache.New(cache.Options{}), Questions: semantic.New(0), Secret: func() []byte { return []byte("s") }, Embedder: models.None, Classifier: models.None,
		Metrics: telemetry.New(telemetry.Build{}), Events: &event.Sink{}, Log: slog.New(slog.DiscardHandler),
	}
	return parts.Layers()(cfg, s)
}

// TestADryRunWithoutAGatewayHasThePoliciesOfTheGateway: of every layer that has one, from the configuration, keys and classes.
func TestADryRunWithoutAGatewayHasThePoliciesOfTheGateway(t *testing.T) {
	for _, text := range []string{everyLayer, "", "pipeline: {pii: {policy: block}, injection: {policy: block, user: flag, documents: quarantine, on_error: allow}}"} {
		cfg := configOf(t, text)
		for _, own := range []policy.Guards{{}, {PII: "off", Injection: "block"}} {
			for _, class := range []policy.SecurityClass{policy.SecurityStandard, policy.SecurityConfidential} {
				who := policy.Principal{Guards: own}
				got, want := parts.Guards(cfg).Guards(&who, class), pipeline.New(layersOf(t, cfg)...).Guards(&who, class)
				if len(want) == 0 || !maps.Equal(got, want) {
					t.Errorf("%s, a key with %+v, class %v: %v, and the gateway's are %v", text, own, class, got, want)
				}
			}
		}
	}
}

// quoted is a text as JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text) // never fails
	return string(b)
}

// message is a message of a conversation.
func message(role, text string) string {
	return `{"role":"` + role + `","content":` + quoted(text) + `}`
}

// called is a tool call and its result.
func called(n int, text string) string {
	return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"read","arguments":"{\"n\":%d}"}}]},{"role":"tool","tool_call_id":"c%d","content":%s}`, n, n, n, quoted(text))
}

// large are requests of about size bytes, by what is large in them.
var large = map[string]func(size int) string{
	"one text": func(size int) string {
		return message("user", strings.Repeat("The parcel left the depot in the morning, and all is well. ", size/59))
	},
	"many turns": func(size int) string {
		var all []string
		for n := range size / 160 {
			all = append(all, message("user", fmt.Sprintf("Question number %d of the day", n)), message("assistant", fmt.Sprintf("The answer to number %d is here", n)))
		}
		return strings.Join(append(all, message("user", "and now?")), ",")
	},
	"many results that differ in a line": func(size int) string {
		rows := strings.Repeat("2026-11-28 12:00:00 the parcel left the depot\n", 80)
		all := []string{message("user", "look")}
		for n := range size / (len(rows) + 300) {
			all = append(all, called(n, rows+fmt.Sprintf("row %d\n", n)+rows[:40]))
		}
		return strings.Join(all, ",")
	},
	"a result of values": func(size int) string {
		var b strings.Builder
		for n := 0; b.Len() < size; n++ {
			fmt.Fprintf(&b, "customer.%d@example.org has parcel %d\n", n, n)
		}
		return message("user", "look") + "," + called(1, b.String())
	},
	"a result in JSON": func(size int) string {
		var b strings.Builder
		for n := 0; b.Len() < size; n++ {
			fmt.Fprintf(&b, `, {"id" : %d, "state" : "left the depot", "weight" : %d.5}`, n, n)
		}
		return message("user", "look") + "," + called(1, "["+b.String()[1:]+"]")
	},
	"terminal output": func(size int) string {
		return message("user", "look") + "," + called(1, strings.Repeat("\x1b[32mok\x1b[0m 10%\r20%\r100% done\n", size/90))
	},
	"beginnings of tags and escapes": func(size int) string {
		return message("user", strings.Repeat(`<EMAIL_ \u003c aWdub3Jl `, size/28))
	},
	"results of one call, each out of date": func(size int) string {
		all := []string{message("user", "look")}
		for n := range size / 700 {
			one := called(n, strings.Repeat(fmt.Sprintf("the state is %d\n", n), 30))
			all = append(all, strings.ReplaceAll(one, fmt.Sprintf(`\"n\":%d`, n), `\"n\":1`))
		}
		return strings.Join(append(all, message("user", "and now?")), ",")
	},
	"a system prompt of many lines": func(size int) string {
		return message("system", strings.Repeat("You watch the parcels, and say where each of them is.\n", size/54)) + "," + message("user", "and now?")
	},
	"a system prompt of flagged blocks": func(size int) string {
		var blocks []string
		for n := range size / 80 {
			blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":"Block %d of the rules","bardo":%q}`, n, []string{"static", "volatile"}[n%2]))
		}
		return `{"role":"system","content":[` + strings.Join(blocks, ",") + `]},` + message("user", "and now?")
	},
}

// candidates are models with a prompt cache and its prices, which layers weigh changes against, and a context window that a long request fills.
func candidates(window int) []policy.Resolution {
	prices := policy.Prices{Input: 3_000_000, CachedInput: 300_000, CacheWrite: 3_750_000, Output: 15_000_000}
	one := policy.Resolution{Provider: "p", Model: "m", Prices: prices, MinCache: 1024, Context: window}
	two := one
	two.Provider = "q"
	return []policy.Resolution{one, two}
}

// tooMany are the definitions of more tools than a request may send, of about size bytes.
func tooMany(size int) string {
	var all []string
	for n := range size / 2100 {
		all = append(all, fmt.Sprintf(`{"type":"function","function":{"name":"get_%d","description":%s,"parameters":{"type":"object"}}}`, n, quoted(strings.Repeat("Gets a parcel. ", 134))))
	}
	return strings.Join(all, ",")
}

// allocated returns how many bytes the layers allocate for a conversation's next request, or for its first.
func allocated(t *testing.T, messages, tools string, found []policy.Resolution, next bool) int64 {
	t.Helper()
	p := pipeline.New(everyLayerOf(t)...)
	pass := func(messages string) int64 {
		body := []byte(`{"model":"m","max_tokens":100,"messages":[` + messages + `],"tools":[` + tools + `]}`)
		r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", body)
		if err != nil {
			t.Fatal(err)
		}
		x := &pipeline.Exchange{ID: "req_x", Request: r, Principal: policy.Principal{Account: "a"}, Profile: pipeline.ProfileFull, Found: found}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := p.Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	took := pass(messages)
	if next {
		took = pass(messages + "," + message("assistant", "It is on its way.") + "," + message("user", "and now?"))
	}
	return took
}

// TestEightMegabytesPassEveryLayerInProportion: whatever is large in a request, four times the size takes about four times the memory, and a bounded number of
// bytes per byte of the request, with candidates whose prompt cache is weighed and whose window it fills; for conversations with many results, this is measured
// on the next request. It is not parallel, since allocations are counted.
func TestEightMegabytesPassEveryLayerInProportion(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}`
	for about, of := range large {
		next := strings.Contains(about, "results")
		mustStayInProportion(t, about, func(size int) (int64, int) {
			messages := of(size)
			return allocated(t, messages, tool, candidates(100_000), next), len(messages)
		})
	}
	mustStayInProportion(t, "tools", func(size int) (int64, int) {
		tools := tooMany(size)
		return allocated(t, message("user", "where is it?"), tools, candidates(0), true), len(tools)
	})
}

// mustStayInProportion compares the allocations for 2 and 8 MB.
func mustStayInProportion(t *testing.T, about string, take func(size int) (took int64, bytes int)) {
	t.Helper()
	least, small := take(2 << 20)
	most, big := take(8 << 20)
	t.Logf("%s: %.1f and %.1f bytes for each of %d and %d", about, float64(least)/float64(small), float64(most)/float64(big), small, big)
	if most > 6*least+(64<<20) || most > 80*int64(big) {
		t.Errorf("%s: %d bytes take %d of memory, and %d take %d", about, small, least, big, most)
	}
}

// TestR09EachStepBeforeTheDecisionHasATime: the caches, the tool classifier, the layers that shorten, order and enrich a request, and session affinity.
// Protecting layers have their own limits, or none: they are not skipped.
func TestR09EachStepBeforeTheDecisionHasATime(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, l := range everyLayerOf(t) {
		switch v := l.(type) {
		case pipeline.Budgeted:
			seen[l.Name()] = v.Budget() > 0
		case pipeline.Timed:
			seen[l.Name()] = v.Expected(&pipeline.Exchange{}) > 0
		}
	}
	for _, name := range []string{"l1", "l2", "l3", "l4", "l5", "l6"} {
		if !seen[name] {
			t.Errorf("there is no layer %s with a time", name)
		}
	}
}
