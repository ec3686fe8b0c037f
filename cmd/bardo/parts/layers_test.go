package parts_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
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

// everyLayer is the pipeline with each of its layers at work.
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
	cfg, problems := config.Parse("test.yaml", []byte(everyLayer), func(string) (string, bool) { return "", false }, parts.Kinds()...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := &run.Services{
		Answers: cache.New(cache.Options{}), Questions: semantic.New(0), Secret: func() []byte { return []byte("s") }, Embedder: models.None, Classifier: models.None,
		Metrics: telemetry.New(telemetry.Build{}), Events: &event.Sink{}, Log: slog.New(slog.DiscardHandler),
	}
	return parts.Layers()(cfg, s)
}

// quoted is a text in JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text) // it can be
	return string(b)
}

// message is one of a conversation.
func message(role, text string) string {
	return `{"role":"` + role + `","content":` + quoted(text) + `}`
}

// called are a tool's call and its result.
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
}

// allocated is how many bytes the layers take for a request.
func allocated(t *testing.T, messages string) int64 {
	t.Helper()
	p := pipeline.New(everyLayerOf(t)...)
	body := []byte(`{"model":"m","max_tokens":100,"messages":[` + messages + `]}`)
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", body)
	if err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{ID: "req_x", Request: r, Principal: policy.Principal{Account: "a"}, Profile: pipeline.ProfileFull}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := p.Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestEightMegabytesPassEveryLayerInProportion: whatever is large in a request, four times as much takes about four times the memory, and a bounded number of bytes for each
// byte of the request. It is not parallel: what is allocated is counted.
func TestEightMegabytesPassEveryLayerInProportion(t *testing.T) {
	for about, of := range large {
		small, big := of(2<<20), of(8<<20)
		least, most := allocated(t, small), allocated(t, big)
		t.Logf("%s: %.1f and %.1f bytes for each of %d and %d", about, float64(least)/float64(len(small)), float64(most)/float64(len(big)), len(small), len(big))
		if most > 6*least+(64<<20) || most > 80*int64(len(big)) {
			t.Errorf("%s: %d bytes take %d of memory, and %d take %d", about, len(small), least, len(big), most)
		}
	}
}

// TestR09EachStepBeforeTheDecisionHasATime: the caches, the classifier of tools, what shortens, orders and enriches a request, and session affinity. What protects has limits of
// its own, or none: it is not left out.
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
