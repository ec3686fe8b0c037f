package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/parts"
	"bardo.money/gateway/cmd/bardo/replay"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// prices are per million tokens, in micro-dollars.
func prices(string) policy.Prices {
	return policy.Prices{Input: 3_000_000, Output: 15_000_000, CachedInput: 300_000, CacheWrite: 3_750_000, Known: true}
}

// long is a text of the given number of tokens, by the simulation's estimate.
func long(tokens int) string { return strings.Repeat("abcdefg", tokens/2) }

func request(t *testing.T, at int, path, model string, body map[string]any) replay.Request {
	t.Helper()
	body["model"] = model
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return replay.Request{At: time.Date(2026, 1, 5, 9, 0, at, 0, time.UTC), Path: path, Body: raw, Answer: replay.Answer{Text: "yes", Tokens: 100}}
}

func marked(text string) []any {
	return []any{map[string]any{"type": "text", "text": text, "cache_control": map[string]any{"type": "ephemeral"}}}
}

// TestTheSimulatedCachesFollowTheProvidersRules: reads, writes, minimum prefix, lifetime.
func TestTheSimulatedCachesFollowTheProvidersRules(t *testing.T) {
	hello := []any{map[string]any{"role": "user", "content": "hello"}}
	claude := func(at int, system any, messages ...any) replay.Request {
		return request(t, at, "/v1/messages", "claude-sonnet-4-5", map[string]any{"system": system, "messages": append(messages, hello...)})
	}
	opus := func(at int, system any) replay.Request {
		return request(t, at, "/v1/messages", "claude-opus-4-5", map[string]any{"system": system, "messages": hello})
	}
	gpt := func(at int, text string) replay.Request {
		return request(t, at, "/v1/chat/completions", "gpt-5-mini", map[string]any{"messages": []any{map[string]any{"role": "system", "content": text}, hello[0]}})
	}
	for name, row := range map[string]struct {
		trace           []replay.Request
		cached, written int64 // within 100 tokens above
	}{
		"no marks":                   {[]replay.Request{claude(0, long(2000)), claude(1, long(2000))}, 0, 0},
		"written once, read once":    {[]replay.Request{claude(0, marked(long(2000))), claude(1, marked(long(2000)))}, 2000, 2000},
		"too short":                  {[]replay.Request{claude(0, marked(long(500))), claude(1, marked(long(500)))}, 0, 0},
		"too late":                   {[]replay.Request{claude(0, marked(long(2000))), claude(301, marked(long(2000)))}, 0, 4000},
		"kept by being read":         {[]replay.Request{claude(0, marked(long(2000))), claude(200, marked(long(2000))), claude(400, marked(long(2000)))}, 4000, 2000},
		"another prefix":             {[]replay.Request{claude(0, marked(long(2000))), claude(1, marked("x"+long(2000)))}, 0, 4000},
		"another model's cache":      {[]replay.Request{claude(0, marked(long(2000))), opus(1, marked(long(2000)))}, 0, 4000},
		"the other vendor, unmarked": {[]replay.Request{gpt(0, long(2000)), gpt(1, long(2000))}, 1920, 0},
		"the other vendor, short":    {[]replay.Request{gpt(0, long(900)), gpt(1, long(900))}, 0, 0},
	} {
		got := replay.Direct(replay.Options{Prices: prices}, row.trace)
		if got.Cached < row.cached || got.Cached > row.cached+100 || got.Written < row.written || got.Written > row.written+100 {
			t.Errorf("%s: %d read and %d written, want %d and %d", name, got.Cached, got.Written, row.cached, row.written)
		}
		want := 3*(got.Input-got.Cached-got.Written)*10 + 3*got.Cached + 37*got.Written + got.Written/2 + 150*got.Output
		if cost := int64(got.Cost) / 100_000; cost < want-1 || cost > want+1 {
			t.Errorf("%s costs %d, want %d", name, cost, want)
		}
	}
}

func TestTracesAreReadWhole(t *testing.T) {
	const base = `{"define":"b","body":{"model":"m"}}` + "\n"
	const one = `{"at":"2026-01-05T09:00:00Z","path":"/v1/messages","use":"b","conversation":"c","messages":[{"role":"user","content":"one"}],"answer":{"text":"x"}}` + "\n"
	const two = `{"at":"2026-01-05T09:00:01Z","path":"/v1/messages","use":"b","conversation":"c","mark":true,"set":{"max_tokens":7},"messages":[{"role":"user","content":"two"}],"answer":{}}` + "\n"
	trace, err := replay.Read(strings.NewReader(base + one + "\n" + two))
	if err != nil || len(trace) != 2 {
		t.Fatal(trace, err)
	}
	if got, want := string(trace[1].Body), `{"max_tokens":7,"messages":[{"content":"one","role":"user"},{"content":[{"cache_control":{"type":"ephemeral"},"text":"two","type":"text"}],"role":"user"}],"model":"m"}`; got != want {
		t.Errorf("the second body is %s", got)
	}
	for bad, want := range map[string]string{
		"{":                        "line 1: unexpected EOF",
		base + one[:len(one)/2]:    "line 2: unexpected EOF",
		one:                        `line 1: use: no body "b" is defined before this line`,
		base + `{"use":"b"}`:       "line 2: a request has at",
		base + `{"wrong":1}`:       `line 2: json: unknown field "wrong"`,
		base + `{"at":"yesterday"`: "line 2: ",
	} {
		if _, err := replay.Read(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q gives %v, want %s", bad, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"define":"b","body":{"model":"m"}}` + "\n" + `{"at":"2026-01-05T09:00:00Z","path":"/v1/messages","use":"b","mark":true,"messages":[{"content":[]}]}`)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = replay.Read(strings.NewReader(text)) })
}

// floors are the minimum shares of the direct cost that the layers save on the repository's traces.
var floors = map[string]float64{"coding": 0.1, "golem-day": 0.58, "support": 0, "tools-150": 0.75}

// TestC08PruningIsWorthItsPlace: an agent's day with all kinds of ticks costs less with it than without, by its models' prices and caches.
func TestC08PruningIsWorthItsPlace(t *testing.T) {
	o, trace := recorded(t, "golem-day")
	got, err := replay.Compare(context.WithoutCancel(t.Context()), o, trace)
	if err != nil {
		t.Fatal(err)
	}
	if l := got.Gateway.Layers["l4"]; l == nil || l.Worth < got.Direct.Cost/50 {
		t.Errorf("pruning: %+v of %d", l, got.Direct.Cost)
	}
}

// TestTheLayersSaveOnEveryTrace: at least as much as documented, and no trace costs more than without a gateway.
func TestTheLayersSaveOnEveryTrace(t *testing.T) {
	for name, floor := range floors {
		o, trace := recorded(t, name)
		direct := replay.Direct(o, trace)
		through, err := replay.Through(context.WithoutCancel(t.Context()), o, trace, replay.Without{})
		if err != nil {
			t.Fatal(name, err)
		}
		saved := 1 - float64(through.Cost)/float64(direct.Cost)
		if name == "coding" && through.CachedShare() < direct.CachedShare() { // K-27
			t.Errorf("the coding session reads %.1f %% from the cache, directly %.1f %%", 100*through.CachedShare(), 100*direct.CachedShare())
		}
		if saved < floor || through.Requests != len(trace) {
			t.Errorf("%s: %d of %d requests, %.1f %% of %s saved, want %.0f %%", name, through.Requests, len(trace), 100*saved, fmt.Sprint(direct.Cost), 100*floor)
		}
	}
}

// recorded returns one of the repository's traces, and the options of its replay.
func recorded(t *testing.T, name string) (replay.Options, []replay.Request) {
	t.Helper()
	traces := filepath.Join("..", "..", "..", "e2e", "traces")
	text, err := os.ReadFile(filepath.Join(traces, "replay.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Parse("replay.yaml", text, func(string) (string, bool) { return "", false }, parts.Kinds()...)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	f, err := os.Open(filepath.Join(traces, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := replay.Read(f)
	_ = f.Close() // read only
	if err != nil {
		t.Fatal(name, err)
	}
	return replay.Options{Config: cfg, Parts: parts.All, Prices: prices}, trace
}

// TestNoTraceIsWorseWithAHistoryThatIsShortened: with layer l5, and with each of its steps that had an effect, no trace of the repository costs more than
// without.
func TestNoTraceIsWorseWithAHistoryThatIsShortened(t *testing.T) {
	for name := range floors {
		o, trace := recorded(t, name)
		all, err := replay.Compare(context.WithoutCancel(t.Context()), o, trace)
		if err != nil {
			t.Fatal(name, err)
		}
		l5 := all.Gateway.Layers["l5"]
		if l5 == nil {
			continue
		}
		if l5.Worth < 0 {
			t.Errorf("%s: l5 costs %s USD", name, -l5.Worth)
		}
		var saved int64
		for step, s := range l5.Steps {
			if saved += s.Saved; s.Worth < 0 {
				t.Errorf("%s: the step %s costs %s USD", name, step, -s.Worth)
			}
		}
		if saved > l5.Saved || saved < l5.Saved-int64(l5.Runs*len(l5.Steps)) {
			t.Errorf("%s: the steps saved %d tokens, the layer %d", name, saved, l5.Saved)
		}
	}
}

// TestReplaysDoNotHelpEachOther: each replay starts without the state of earlier ones.
func TestReplaysDoNotHelpEachOther(t *testing.T) {
	o, trace := recorded(t, "tools-150")
	var costs []policy.Pico
	for range 2 {
		through, err := replay.Through(context.WithoutCancel(t.Context()), o, trace, replay.Without{})
		if err != nil {
			t.Fatal(err)
		}
		costs = append(costs, through.Cost)
	}
	if costs[0] != costs[1] {
		t.Errorf("the same trace costs %s, then %s", costs[0], costs[1])
	}
}

// TestTheFiguresOfTheDocuments: docs/context.md and README.md state what `make replay` prints, within a point: what a layer does within its time limit depends
// on the machine.
func TestTheFiguresOfTheDocuments(t *testing.T) {
	page, err := os.ReadFile("../../../docs/context.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	claim := regexp.MustCompile(`(\d+) % for an agent's day of 100 ticks, by (\d+) % for an agent with 150 tools, by (\d+) % for a coding session whose client sets its own marks, and by (\d+) % for a support chat`)
	claimed := claim.FindStringSubmatch(strings.Join(strings.Fields(string(readme)), " "))
	if claimed == nil {
		t.Fatalf("README.md does not say %s", claim)
	}
	for i, name := range []string{"golem-day", "tools-150", "coding", "support"} {
		o, trace := recorded(t, name)
		if o.Prices, err = replay.CatalogPrices(o.Config); err != nil {
			t.Fatal(err)
		}
		direct := replay.Direct(o, trace)
		through, err := replay.Through(context.WithoutCancel(t.Context()), o, trace, replay.Without{})
		if err != nil {
			t.Fatal(name, err)
		}
		saved := 100 * (1 - float64(through.Cost)/float64(direct.Cost))
		row := regexp.MustCompile(`\| ` + name + ` \| (\d+) \| [\d.]+ \| [\d.]+ \| (\d+) % \|`).FindStringSubmatch(string(page))
		if len(row) != 3 || row[1] != fmt.Sprint(len(trace)) {
			t.Errorf("docs/context.md has no row of %s with %d requests: %q", name, len(trace), row)
			continue
		}
		for document, stated := range map[string]string{"docs/context.md": row[2], "README.md": claimed[i+1]} {
			if n, err := strconv.Atoi(stated); err != nil || math.Abs(float64(n)-saved) > 1.5 {
				t.Errorf("%s says that %s %% of %s are saved, it is %.1f %%", document, stated, name, saved)
			}
		}
	}
}
